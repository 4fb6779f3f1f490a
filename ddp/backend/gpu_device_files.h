#pragma once

namespace lockstep {

// may_have_gpu() only checks whether one of these exists. docs/gpu/check.sh reads them here too, so
// each is spelt out.
constexpr const char* kGpuDeviceFiles[] = {
    "/dev/nvidiactl",                                                        // the driver's
    "/dev/dxg",                                                              // Windows' under WSL
    "/dev/nvhost-ctrl", "/dev/nvhost-ctrl-gpu", "/dev/nvgpu", "/dev/nvmap",  // Tegra's
};

}  // namespace lockstep
