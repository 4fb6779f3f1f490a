// The devices that the settings of a run need, and their part of the report. No torch.
#pragma once

#include "cli/known.h"
#include "harness/campaign/campaign.h"
#include "harness/cases/result.h"

#include <functional>

namespace lockstep::cli {

// The devices that this process sees for each backend of `jobs` whose tensors are on a device, even
// if it is not run. May query a driver: call it after the last fork, and before any call of
// LibTorch.
DevicesByBackend devices_for(const std::vector<Job>& jobs, const Known& known);

// Removes the cases of jobs whose backend has no device here, and sets the reason.
void leave_out_those_without_devices(std::vector<Job>& jobs, const DevicesByBackend& devices);

// For the report: which worlds of `jobs` share devices. `taken` returns it for a world size. Worlds
// of more than `size_most` ranks are not run.
using TakenBySize = std::function<DevicesTaken(const std::string& backend, int size)>;
std::vector<SharedDevices> shared_devices_of(const std::vector<Job>& jobs,
                                             const DevicesByBackend& devices, int size_most,
                                             const TakenBySize& taken);

}  // namespace lockstep::cli
