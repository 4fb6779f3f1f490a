// The shape Training: a network, its data split over the ranks, and the steps they take.
#pragma once

#include "harness/cases/scenario.h"
#include "scenarios/cases/options.h"
#include "scenarios/cases/words.h"

namespace lockstep::scenarios {

// A dense layer: x weight^T + bias, then max(x, 0) if relu.
struct DenseLayer {
  int width = 1;
  bool bias = false;
  bool relu = false;
  auto operator<=>(const DenseLayer&) const = default;
  static constexpr auto fields() {
    return std::tuple{field("width", &DenseLayer::width, between(1, 4096)),
                      field("bias", &DenseLayer::bias), field("relu", &DenseLayer::relu)};
  }
};

enum class FrozenDtype { none, float32, float64 };

// Parallel branches on one input, their outputs summed. Each branch is the hidden layers, then a
// dense layer with a bias to one output. Not part of the output are the buffers, each of which
// every forward changes by the number of its samples, and a frozen parameter, registered last.
struct NetworkSpec {
  std::vector<DenseLayer> hidden;
  int branches = 1;
  int inputs = 1;
  std::vector<Dtype> buffers;              // the dtype of each
  FrozenDtype frozen = FrozenDtype::none;  // the dtype of the frozen parameter
  bool order_by_rank = false;  // rank r runs branch r first, so gradients arrive in another order
  auto operator<=>(const NetworkSpec&) const = default;
  static constexpr auto fields() {
    return std::tuple{field("hidden", &NetworkSpec::hidden),
                      field("branches", &NetworkSpec::branches, between(1, 64)),
                      field("inputs", &NetworkSpec::inputs, between(1, 4096)),
                      field("buffers", &NetworkSpec::buffers,
                            one_of<Dtype::float32, Dtype::float64, Dtype::int64, Dtype::int32,
                                   Dtype::int16, Dtype::int8, Dtype::uint8, Dtype::bool_>),
                      field("frozen", &NetworkSpec::frozen),
                      field("order_by_rank", &NetworkSpec::order_by_rank)};
  }
};

struct Training {
  WorldSpec world;
  int steps = 1;
  NetworkSpec network;
  int batch_log2 = 0;       // a global batch holds 2^batch_log2 samples
  std::vector<int> shares;  // rank r gets a part of the batch like shares[r]; empty: equal shares
  int micro_batches = 1;    // batches whose gradients add up before each update
  int groups = 1;           // equal groups of ranks that train separately; 1 if they do not divide
  OptimizerKind optimizer = OptimizerKind::none;
  int learning_rate_log2 = 0;
  WrapOptions options;
  Dtype dtype = Dtype::float32;
  Values values = Values::exact;
  uint64_t seed = 0;
  auto operator<=>(const Training&) const = default;
  std::string unmet_precondition() const { return why_ranks_begin_apart(options); }
  static constexpr auto fields() {
    return std::tuple{
        field("world", &Training::world),
        field("steps", &Training::steps, between(1, 1000)),
        field("network", &Training::network),
        field("batch_log2", &Training::batch_log2, between(0, 20)),
        field("shares", &Training::shares, between(0, 1000)),
        field("micro_batches", &Training::micro_batches, between(1, 64)),
        field("groups", &Training::groups, between(1, 512)),
        field("optimizer", &Training::optimizer,
              one_of<OptimizerKind::none, OptimizerKind::sgd, OptimizerKind::momentum,
                     OptimizerKind::adam>),
        field("learning_rate_log2", &Training::learning_rate_log2, between(-20, 20), Cost::numbers),
        field("options", &Training::options),
        field("dtype", &Training::dtype, kSingleOrDouble, Cost::numbers),
        field("values", &Training::values, {}, Cost::numbers),
        field("seed", &Training::seed, {}, Cost::numbers)};
  }
};

// The samples of one rank: [begin, end) of the global batch.
struct Part {
  int64_t begin = 0, end = 0;
};

// Parts lie in rank order and cover the batch; a share of zero is an empty part. Shares are read
// cyclically; without a positive one all are equal.
Part part_of_batch(const Training& c, int rank);

inline int64_t batch_size(const Training& c) {
  return int64_t{1} << c.batch_log2;
}

// The index of a step's micro-batch in the whole training; each has its own data.
inline int batch_index(const Training& c, int step, int micro_batch) {
  return step * c.micro_batches + micro_batch;
}

// The ranks of the group that `rank` trains in, ascending; all of them where there is one group.
std::vector<int> group_of(const Training& c, int rank);

// The training of one group as a separate case: its ranks are numbered from 0; its data and
// parameters differ from every other group's.
Training case_of_group(const Training& c, const std::vector<int>& group);

}  // namespace lockstep::scenarios

namespace lockstep {

// Made once: drawing, shrinking and reading a case take a compiler ten seconds.
extern template Scenario scenario<scenarios::Training>(Spec<scenarios::Training> spec);

}  // namespace lockstep
