#pragma once

namespace lockstep {

// Whether one of these is there is all that may_have_gpu() asks. docs/gpu/check.sh reads them here
// too, so each is spelt out.
constexpr const char* kGpuDeviceFiles[] = {
    "/dev/nvidiactl",                                                        // the driver's
    "/dev/dxg",                                                              // Windows' under WSL
    "/dev/nvhost-ctrl", "/dev/nvhost-ctrl-gpu", "/dev/nvgpu", "/dev/nvmap",  // Tegra's
};

}  // namespace lockstep
