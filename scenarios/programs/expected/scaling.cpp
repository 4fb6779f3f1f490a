#include "scenarios/programs/expected/scaling.h"

#include <utility>

namespace lockstep::scenarios::programs {

using reference::Scaling;

FollowedScaling::FollowedScaling(const ProgramSpec& c, std::vector<bool> is_sparse)
    : c_(c),
      is_sparse_(std::move(is_sparse)),
      gradients_(static_cast<size_t>(c.world.size),
                 std::vector<Gradient>(is_sparse_.size(), Gradient::is_new)) {}

// With create_graph autograd adds out of place.
Scaling FollowedScaling::of(const Action& backward, int rank, size_t p) const {
  if (is_sparse_[p]) return Scaling::divided;
  if (c_.hook != BucketHook::none) return Scaling::unknown;
  if (c_.options.batched_grad_copy) return Scaling::divided;
  if (!c_.options.gradient_as_bucket_view) return Scaling::multiplied;
  const auto gradient = gradients_[static_cast<size_t>(rank)][p];
  if (gradient == Gradient::is_new) return Scaling::multiplied;
  const bool is_known = gradient == Gradient::is_view && !backward.step.create_graph;
  return is_known ? Scaling::divided : Scaling::unknown;
}

void FollowedScaling::follow(const Action& action, const reference::Replicas& replicas) {
  for (int rank = 0; rank < c_.world.size; ++rank)
    for (size_t p = 0; p < is_sparse_.size(); ++p)
      gradients_[static_cast<size_t>(rank)][p] = after(action, rank, p, replicas);
}

FollowedScaling::Gradient FollowedScaling::after(const Action& action, int rank, size_t p,
                                                 const reference::Replicas& replicas) const {
  const auto op = action.step.op;
  const auto before = gradients_[static_cast<size_t>(rank)][p];
  if (!replicas.gradient(rank, p).defined()) return Gradient::is_new;
  // New buckets, of which what is there is no part.
  const bool is_noted = is_freeze(op) && !action.step.forgotten;
  if (op == Op::wrap || op == Op::regroup || op == Op::tell || is_noted) return Gradient::is_new;
  if (op == Op::relayout && has_bit(action.step.ranks, rank)) return Gradient::is_new;
  if (!action.acts[static_cast<size_t>(rank)]) return Gradient::is_unknown;
  if (!is_backward(op)) return before;
  if (action.is_synchronised && replicas.was_averaged(rank, p)) return Gradient::is_view;
  // One that no rank used lies apart from its bucket, unless that was skipped.
  const bool is_moved = action.is_synchronised || action.step.create_graph;
  return is_moved && before == Gradient::is_view ? Gradient::is_unknown : before;
}

}  // namespace lockstep::scenarios::programs
