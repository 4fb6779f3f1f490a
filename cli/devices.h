// The devices that the settings of a run want, and what a run says of them. No torch.
#pragma once

#include "cli/known.h"
#include "harness/core/result.h"
#include "harness/engine/campaign.h"

#include <functional>

namespace lockstep::cli {

// What this process sees for each backend of `jobs` whose tensors are on a device, whether it is to
// be played or not. May ask a driver: call it behind the last fork, and before LibTorch is asked
// for anything.
DevicesByBackend devices_for(const std::vector<Job>& jobs, const Known& known);

// Takes the cases of jobs whose backend has no device here; the reason is told instead.
void leave_out_those_without_devices(std::vector<Job>& jobs, const DevicesByBackend& devices);

// For the report: which worlds of `jobs` share devices. `taken` tells it of a world of some size.
// Worlds of more than `size_most` ranks are not played.
using TakenBySize = std::function<DevicesTaken(const std::string& backend, int size)>;
std::vector<SharedDevices> shared_devices_of(const std::vector<Job>& jobs,
                                             const DevicesByBackend& devices, int size_most,
                                             const TakenBySize& taken);

}  // namespace lockstep::cli
