// A convolution and a batch normalisation under DistributedDataParallel, whose ranks are fed
// different numbers: the case, and the expected running statistics.
#pragma once

#include "harness/base/case.h"
#include "harness/history/history.h"
#include "harness/worlds/options.h"
#include "reference/rounding.h"

#include <string>
#include <vector>

namespace lockstep::scenarios::sync_batch_norm {

inline constexpr int64_t kChannels = 3, kSide = 2;
inline constexpr NormOptions kNorm{.channels = kChannels, .eps_log2 = -4, .momentum_log2 = -3};

enum class NormKind { synchronised, plain };

struct UnderDdp {
  WorldSpec world;
  int steps = 1;
  int distance = 1;          // between what even ranks and odd ranks are fed
  std::vector<int> samples;  // rank r's batch holds samples[r], read cyclically; empty: two each
  NormKind norm = NormKind::synchronised;
  bool broadcast_buffers = true;
  // Step by step: the rank whose forward throws, once, before the layer of a step is reached; -1:
  // none. Ranks then begin anew. Read cyclically; where the layer is synchronised.
  std::vector<int> throwing;
  // After the last step this rank makes no forward until its peers have given up waiting for it in
  // the layer, which has a timeout of its own; -1: none. Where the layer is synchronised.
  int late = -1;
  bool layer_waits_longer = false;  // than the replica, else less long
  // Before this step the replica continues with other groups: of rank 0 alone, and of the others;
  // 0: never. Where the layer is synchronised, and nobody throws or is late.
  int split_at = 0;
  auto operator<=>(const UnderDdp&) const = default;
  static constexpr auto fields() {
    return std::tuple{field("world", &UnderDdp::world),
                      field("steps", &UnderDdp::steps, between(1, 100)),
                      field("distance", &UnderDdp::distance, between(1, 100)),
                      field("samples", &UnderDdp::samples, between(1, 64)),
                      field("norm", &UnderDdp::norm),
                      field("broadcast_buffers", &UnderDdp::broadcast_buffers),
                      field("throwing", &UnderDdp::throwing, between(-1, 63)),
                      field("late", &UnderDdp::late, between(-1, 63)),
                      field("layer_waits_longer", &UnderDdp::layer_waits_longer),
                      field("split_at", &UnderDdp::split_at, between(0, 100))};
  }
};

// The ranks whose batches a synchronised layer sees on this rank in a step.
std::vector<int> group_in(const UnderDdp& c, int step, int rank);
bool has_split(const UnderDdp& c);

std::vector<Row> of_the_last_ranks_group(const UnderDdp& c, const std::vector<Row>& rows);

// One number on a rank: 0 on even ranks, the distance on odd ones.
at::Tensor batch(const UnderDdp& c, int rank);

// One rank's running statistics.
struct Running {
  reference::Rounded average, variance;
};
using ByStep = std::vector<std::vector<Running>>;  // [step][rank]

// The running statistics if every rank's move towards its own batch (with the broadcast of buffers,
// starting from rank 0's), or towards the batches of all.
ByStep alone(const UnderDdp& c, bool broadcast_buffers);
ByStep together(const UnderDdp& c);

// The running variances of ranks that assume every peer's batch to be as large as their own: all
// but the initial value's share is off by the ratio of n / (n - 1).
std::vector<TensorValue> with_own_counts(const UnderDdp& c, const ByStep& right, int step);

}  // namespace lockstep::scenarios::sync_batch_norm
