#include "scenarios/programs/case.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace lockstep::scenarios::programs {

namespace {

// Autograd and optimizers add complex numbers as such, which makes one part NaN where the other is
// infinite. Where there is one pass at most, nothing is added.
bool adds_infinities(const ProgramSpec& c) {
  const auto is_added = [](const LayerSpec& layer) {
    return layer.tied || layer.use == Use::twice;
  };
  const auto count = [&](auto&& is_it) {
    return std::count_if(c.steps.begin(), c.steps.end(), is_it);
  };
  if (count([](const Step& step) { return step.infinite != 0; }) == 0) return false;
  return std::any_of(c.layers.begin(), c.layers.end(), is_added) ||
         count([](const Step& step) { return is_update(step.op); }) > 0 ||
         count([](const Step& step) { return is_backward(step.op) || step.op == Op::bare; }) > 1;
}

}  // namespace

std::vector<LayerSpec> layers_of(const ProgramSpec& c, int model) {
  std::vector<LayerSpec> layers = c.layers;
  if (!layers.empty()) {
    const auto first = static_cast<size_t>(model) % layers.size();
    std::rotate(layers.begin(), layers.begin() + static_cast<std::ptrdiff_t>(first), layers.end());
  }
  for (size_t i = 0; i < layers.size(); ++i) {
    auto& layer = layers[i];
    layer.tied = layer.tied && i > 0;
    if (!layer.tied) continue;
    layer.kind = layers[i - 1].kind;
    layer.size = layers[i - 1].size;
    layer.dtype = layers[i - 1].dtype;
    layer.travels = layers[i - 1].travels;
    layer.element = layers[i - 1].element;
  }
  for (auto& layer : layers) {
    if (layer.kind != LayerKind::sparse) continue;
    if (layer.dtype != Dtype::float64) layer.dtype = Dtype::float32;
    if (layer.use != Use::twice) layer.use = Use::once;
  }
  for (auto& layer : layers) {
    if (layer.dtype == Dtype::complex64 && (layer.kind != LayerKind::vector || adds_infinities(c)))
      layer.dtype = Dtype::float32;
    if (layer.dtype == Dtype::complex64 && layer.use == Use::squared) layer.use = Use::once;
    const bool multiplies = layer.kind == LayerKind::vector ||
                            layer.kind == LayerKind::transposed ||
                            layer.kind == LayerKind::channels_last;
    if (!multiplies || layer.dtype == Dtype::complex64) layer.element = Element::whole;
    if (layer.element == Element::subnormal && c.environment.flushes_denormals)
      layer.element = Element::whole;
  }
  for (size_t i = 0; i < layers.size(); ++i) {
    if (layers[i].use != Use::recomputed) continue;
    const bool is_shared = layers[i].tied || (i + 1 < layers.size() && layers[i + 1].tied);
    if (finds_unused(c) || (is_shared && !c.options.static_graph)) layers[i].use = Use::once;
  }
  return layers;
}

Step with_own_fields(const Step& step) {
  const auto op = step.op;
  Step own{.op = op,
           .model = step.model,
           .no_sync = step.no_sync,
           .inside_another = step.inside_another,
           .everywhere = step.everywhere && (op == Op::forward || op == Op::backward_together)};
  if (op == Op::forward || op == Op::bare) {
    own.penalty = step.penalty && !step.penalty_alone;
    own.penalty_alone = step.penalty_alone;
    own.direct = step.direct;
    own.left_out_of_loss = step.left_out_of_loss;
    own.unused = step.unused;
    own.infinite = step.infinite;
    own.rounds = step.rounds;
  }
  if (op == Op::bare || op == Op::scale || op == Op::relayout) own.ranks = step.ranks;
  if (is_backward(op) || op == Op::grad) {
    own.of = step.of;
    own.create_graph = step.create_graph;
  }
  if (is_backward(op) && !own.everywhere) {
    own.thread = step.thread;
    own.inputs = step.inputs;
  }
  if (is_freeze(op)) {
    own.layer = step.layer;
    own.forgotten = step.forgotten;
  }
  if (op == Op::release) own.of = step.of;
  if (op == Op::wrap || op == Op::regroup) own.cut = step.cut;
  if (op == Op::join) {
    own.forwards = step.forwards;
    own.uneven = step.uneven;
  }
  return own;
}

uint32_t left_out(const ProgramSpec& c, const Step& step, int rank) {
  if (step.unused.empty()) return 0;
  const auto layers = std::min<size_t>(c.layers.size(), 30);
  const auto bits =
      static_cast<uint32_t>(step.unused[static_cast<size_t>(rank) % step.unused.size()]);
  return bits & ((uint32_t{1} << layers) - 1);
}

uint32_t left_out_of_loss(const ProgramSpec& c, const Step& step, int rank) {
  if (step.left_out_of_loss.empty()) return 0;
  const auto bits = static_cast<uint32_t>(
      step.left_out_of_loss[static_cast<size_t>(rank) % step.left_out_of_loss.size()]);
  return bits & ((uint32_t{1} << c.outputs) - 1) & ~uint32_t{1};
}

bool finds_unused(const ProgramSpec& c) {
  return c.options.find_unused_parameters && !c.options.static_graph;
}

std::vector<uint32_t> left_out_by_rank(const ProgramSpec& c, const Step& step) {
  std::vector<uint32_t> out;
  for (int rank = 0; rank < c.world.size; ++rank) out.push_back(left_out(c, step, rank));
  return out;
}

bool sends_buffers(const ProgramSpec& c) {
  for (size_t b = 0; b < c.buffers.size(); ++b)
    if (!is_ignored(c, b)) return c.options.broadcast_buffers;
  return false;
}

bool uses_all_layers(const ProgramSpec& c, const Step& step) {
  const auto bits = left_out_by_rank(c, step);
  return std::all_of(bits.begin(), bits.end(), [](uint32_t each) { return each == 0; });
}

std::vector<std::vector<int>> parts_of_world(const ProgramSpec& c, int cut) {
  std::vector<std::vector<int>> parts(cut % c.world.size == 0 ? 1 : 2);
  for (int rank = 0; rank < c.world.size; ++rank)
    parts[rank < cut % c.world.size ? 0 : parts.size() - 1].push_back(rank);
  return parts;
}

int forwards_in_join(const Step& join, int rank) {
  if (join.forwards.empty() || join.uneven == JoinKind::disabled)
    return std::numeric_limits<int>::max();
  return join.forwards[static_cast<size_t>(rank) % join.forwards.size()];
}

namespace {

// The number of ranks of `group` that have inputs, whenever a rank has become the next to be out.
int64_t multiple_of_live_counts(const Step& join, const std::vector<int>& group) {
  int64_t multiple = 1;
  for (const int rank : group) {
    const auto count = std::count_if(group.begin(), group.end(), [&](int other) {
      return forwards_in_join(join, other) >= forwards_in_join(join, rank);
    });
    multiple = std::lcm(multiple, static_cast<int64_t>(count));
  }
  return multiple;
}

}  // namespace

int64_t multiple_of_divisors(const ProgramSpec& c) {
  std::vector<std::vector<int>> groups = parts_of_world(c, 0);
  for (const auto& step : c.steps)
    if (step.op == Op::wrap || step.op == Op::regroup)
      for (auto& part : parts_of_world(c, step.cut)) groups.push_back(std::move(part));
  int64_t multiple = 1;
  for (const auto& group : groups) {
    multiple = std::lcm(multiple, static_cast<int64_t>(group.size()));
    for (const auto& step : c.steps)
      if (step.op == Op::join && step.uneven == JoinKind::live)
        multiple = std::lcm(multiple, multiple_of_live_counts(step, group));
  }
  return multiple;
}

}  // namespace lockstep::scenarios::programs
