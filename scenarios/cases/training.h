// The shape Training: a network, its data split over the ranks, and the steps they take.
#pragma once

#include "harness/core/case.h"
#include "harness/world/options.h"

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

// Parallel branches on one input, their outputs summed. Each branch is the hidden layers, then a
// dense layer with a bias to one output.
struct NetworkSpec {
  std::vector<DenseLayer> hidden;
  int branches = 1;
  int inputs = 1;
  bool order_by_rank = false;  // rank r runs branch r first, so gradients arrive in another order
  auto operator<=>(const NetworkSpec&) const = default;
  static constexpr auto fields() {
    return std::tuple{field("hidden", &NetworkSpec::hidden),
                      field("branches", &NetworkSpec::branches, between(1, 64)),
                      field("inputs", &NetworkSpec::inputs, between(1, 4096)),
                      field("order_by_rank", &NetworkSpec::order_by_rank)};
  }
};

struct Training {
  WorldSpec world;
  int steps = 1;
  NetworkSpec network;
  int batch_log2 = 0;       // the global batch holds 2^batch_log2 samples
  std::vector<int> shares;  // rank r gets a part of the batch like shares[r]; empty: equal shares
  bool update = false;      // an SGD step after every backward
  int learning_rate_log2 = 0;
  WrapOptions options;
  std::string dtype = "float32";
  uint64_t seed = 0;
  auto operator<=>(const Training&) const = default;
  static constexpr auto fields() {
    return std::tuple{field("world", &Training::world),
                      field("steps", &Training::steps, between(1, 1000)),
                      field("network", &Training::network),
                      field("batch_log2", &Training::batch_log2, between(0, 20)),
                      field("shares", &Training::shares, between(0, 1000)),
                      field("update", &Training::update),
                      field("learning_rate_log2", &Training::learning_rate_log2, between(-20, 20)),
                      field("options", &Training::options),
                      field("dtype", &Training::dtype, one_of("float32|float64")),
                      field("seed", &Training::seed)};
  }
};

// The samples of one rank: [begin, end) of the global batch.
struct Part {
  int64_t begin = 0, end = 0;
};

// Parts lie in rank order and cover the batch; a share of zero is an empty part. Shares are read
// cyclically; none, or none above zero, means equal ones.
Part part_of_batch(const Training& c, int rank);

inline int64_t batch_size(const Training& c) {
  return int64_t{1} << c.batch_log2;
}

}  // namespace lockstep::scenarios
