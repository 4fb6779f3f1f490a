// The shape of the zeros-and-ones experiment, and its pictures.
#pragma once

#include "demos/make.h"

namespace lockstep::demos::buffers {

struct Settings {
  int world = 2;
  int forwards = 3;
  int64_t momentum_log2 = -1;
  auto operator<=>(const Settings&) const = default;
  static constexpr auto fields() {
    return std::tuple{field("world", &Settings::world, between(2, 6)),
                      field("forwards", &Settings::forwards, between(1, 4)),
                      field("momentum_log2", &Settings::momentum_log2, between(-3, 0))};
  }
};
using BuffersCase = Staged<Settings>;

inline const std::vector<std::string> kMoments{"in", "out", "bwd"};

// One of the four ways, by the name of its records.
struct Way {
  std::string_view name;
  const char* title;
  const char* rule;
};
inline constexpr Way kOn{
    "on", "broadcast_buffers on",
    "With the broadcast every forward must begin with rank 0's running_mean and move "
    "towards the rank's own batch"};
inline constexpr Way kOff{
    "off", "broadcast_buffers off",
    "Without the broadcast every rank must move its own running_mean towards its "
    "own batch"};
inline constexpr Way kSync{
    "sync", "SyncBatchNorm",
    "SyncBatchNorm must move running_mean towards the average over all ranks' "
    "batches"};
inline constexpr Way kParallel{
    "parallel", "DataParallel, one process",
    "DataParallel must keep the running_mean of its first replica alone"};

// The moment of a record: three a forward.
Moment moment_of(size_t index);

// The running_mean of one process on the whole batch, moment after moment.
std::vector<double> reference_of(const BuffersCase& c);

DemoStory show(const BuffersCase& c, const History& h);

}  // namespace lockstep::demos::buffers
