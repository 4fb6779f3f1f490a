#include "scenarios/cases/labels.h"

#include <algorithm>

namespace lockstep::scenarios {

namespace {

// How many parameters learn, and how many numbers they hold.
struct Learning {
  int64_t parameters = 0, elements = 0;
  void add(int64_t count) {
    ++parameters;
    elements += count;
  }
};

Learning learning_of(const NetworkSpec& network) {
  Learning out;
  for (int branch = 0; branch < network.branches; ++branch) {
    int64_t width = network.inputs;
    for (const auto& layer : network.hidden) {
      out.add(width * layer.width);
      if (layer.bias) out.add(layer.width);
      width = layer.width;
    }
    out.add(width);
    out.add(1);
  }
  return out;
}

int64_t part_size(const Training& c, int rank) {
  const auto part = part_of_batch(c, rank);
  return part.end - part.begin;
}

}  // namespace

bool differs_between_ranks(const std::vector<int>& list, int world_size) {
  const auto count = std::min(list.size(), static_cast<size_t>(world_size));
  return std::adjacent_find(list.begin(), list.begin() + static_cast<std::ptrdiff_t>(count),
                            std::not_equal_to<>()) !=
         list.begin() + static_cast<std::ptrdiff_t>(count);
}

bool has_unequal_parts(const Training& c) {
  for (int rank = 1; rank < c.world.size; ++rank)
    if (part_size(c, rank) != part_size(c, 0)) return true;
  return false;
}

bool has_empty_part(const Training& c) {
  for (int rank = 0; rank < c.world.size; ++rank)
    if (part_size(c, rank) == 0) return true;
  return false;
}

bool has_several_buckets(const Training& c) {
  const auto learning = learning_of(c.network);
  const int64_t bytes = learning.elements * traits_of(c.dtype).bytes;
  const int64_t cap = c.options.bucket_cap_bytes;
  return cap > 0 && learning.parameters > 1 && bytes > cap;
}

bool has_unsynchronised_forward(const Stateful& c) {
  const auto is = synchronised(c);
  return c.options.broadcast_buffers && std::find(is.begin(), is.end(), false) != is.end();
}

bool has_unequal_batches(const Stateful& c) {
  return differs_between_ranks(c.samples, c.world.size);
}

std::vector<Label<Layer>> labels_of_batches(double three_ranks, double unequal_size) {
  return {{"three ranks and more", three_ranks, has_three_ranks<Layer>},
          {"batches of unequal size", unequal_size,
           [](const Layer& c) { return differs_between_ranks(c.samples, c.world.size); }}};
}

std::vector<Label<Layer>> labels_of_layers() {
  auto out = labels_of_batches(0.4, 0.1);
  out.push_back({"an empty batch", 0.02, [](const Layer& c) {
                   for (int rank = 0; rank < c.world.size; ++rank)
                     if (samples_of(c, rank) == 0) return true;
                   return false;
                 }});
  out.push_back({"half precision", 0.2, [](const Layer& c) { return is_half(c.dtype); }});
  out.push_back({"averages far from zero", 0.4, [](const Layer& c) { return c.average_log2 > 0; }});
  out.push_back({"a frozen weight or bias", 0.1,
                 [](const Layer& c) { return c.norm.affine && c.frozen != FrozenOfLayer::none; }});
  out.push_back({"half weights and running statistics", 0.05,
                 [](const Layer& c) { return c.half_parameters && is_half(c.dtype); }});
  out.push_back(
      {"seven channels and more", 0.02, [](const Layer& c) { return c.norm.channels >= 7; }});
  out.push_back(
      {"several threads in an operation", 0.2, [](const Layer& c) { return c.threads > 1; }});
  out.push_back({"no weight and bias", 0.2, [](const Layer& c) { return !c.norm.affine; }});
  return out;
}

}  // namespace lockstep::scenarios
