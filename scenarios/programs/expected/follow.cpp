#include "scenarios/programs/expected/follow.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>

namespace lockstep::scenarios::programs {

namespace {

std::vector<bool> are_sparse(const LayeredModel& model) {
  std::vector<bool> out;
  for (const auto& each : model.distinct_parameters()) out.push_back(model.is_sparse(each.value));
  return out;
}

std::vector<reference::StoredParameter> stored(const LayeredModel& model) {
  std::vector<reference::StoredParameter> out;
  for (const auto& [name, value] : model.distinct_parameters())
    out.push_back(
        {c10::toRealValueType(value.scalar_type()), numbers_of(value.detach()).to(at::kDouble)});
  return out;
}

}  // namespace

FollowedModel::FollowedModel(const ProgramSpec& c, const std::vector<Action>& actions, int model)
    : c_(c),
      actions_(actions),
      model_(model),
      module_(c, model, build_seed(c, 0), at::kDouble),
      replicas_(c.world.size, stored(LayeredModel(c, model, build_seed(c, 0)))),
      groups_(parts_of_world(c, 0)),
      forwards_counted_(static_cast<size_t>(c.world.size), 0),
      scaling_(c, are_sparse(LayeredModel(c, model, build_seed(c, 0)))) {
  module_.eval();
  const LayeredModel stored(c, model, build_seed(c, 0));
  const auto options = stored.options(c.options);
  const auto is_named = [](const std::vector<std::string>& names, const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  const auto all_names = stored.named_parameters();
  const auto is_delayed = [&](const at::Tensor& value) {
    return std::ranges::any_of(all_names, [&](const auto& each) {
      return each.value().is_same(value) && is_named(options.delayed, each.key());
    });
  };
  for (const auto& [name, value] : stored.distinct_parameters()) {
    names_.push_back(name);
    forms_.push_back(form_of(value));
    travelling_.push_back({.bytes = static_cast<int64_t>(value.nbytes()),
                           .kind = static_cast<int>(value.scalar_type()),
                           .is_sparse = stored.is_sparse(value),
                           .is_delayed = is_delayed(value)});
    is_ignored_.push_back(is_named(options.ignored, name));
  }
  for (const auto& each : module_.distinct_parameters()) leaves_.push_back(each.value);
  begin();
}

// Parameters that are ignored are each rank's own.
void FollowedModel::begin() {
  buffers_.resize(static_cast<size_t>(c_.world.size));
  sends_buffers_next_.assign(static_cast<size_t>(c_.world.size), true);
  for (int rank = 0; rank < c_.world.size; ++rank) {
    const auto own = stored(LayeredModel(c_, model_, build_seed(c_, rank)));
    for (size_t p = 0; p < own.size(); ++p)
      if (is_ignored_[p]) replicas_.load(rank, p, own[p].value);
    for (size_t b = 0; b < c_.buffers.size(); ++b)
      buffers_[static_cast<size_t>(rank)].push_back(
          initial_buffer(build_seed(c_, is_ignored(c_, b) ? rank : 0), b));
  }
  note_what_takes_part();
}

void FollowedModel::note_what_takes_part() {
  was_trainable_.clear();
  for (size_t p = 0; p < leaves_.size(); ++p) {
    was_trainable_.push_back(leaves_[p].requires_grad());
    replicas_.take_part(p, was_trainable_[p] && !is_ignored_[p]);
  }
}

// docs/semantics.md 2.7. The first of several parameters that were frozen is named.
std::vector<std::string> FollowedModel::refusals() const {
  std::string what;
  for (const bool is_frozen : {true, false})
    for (size_t p = 0; p < leaves_.size() && what.empty(); ++p)
      if (!is_ignored_[p] && was_trainable_[p] == is_frozen &&
          leaves_[p].requires_grad() != is_frozen)
        what = "parameter '" + names_[p] + "' was " + (is_frozen ? "frozen" : "unfrozen");
  std::vector<std::string> out(buffers_.size());
  for (const auto& group : groups_)
    for (size_t i = 0; i < group.size(); ++i)
      out[static_cast<size_t>(group[i])] =
          "rank " + std::to_string(i) + ": " + what +
          " after it was wrapped; call update_trainable_parameters() on every rank";
  return out;
}

std::vector<size_t> FollowedModel::reduced() const {
  std::vector<size_t> out;
  for (size_t p = 0; p < leaves_.size(); ++p)
    if (leaves_[p].requires_grad() && !is_ignored_[p]) out.push_back(p);
  return out;
}

void FollowedModel::follow(const Action& action) {
  const auto op = action.step.op;
  mistakes_.clear();
  unsent_buffers_.clear();
  note_inputs(action);
  if (action.is_refused) return;
  if (op == Op::forward || op == Op::throw_ || op == Op::evaluate || op == Op::infer)
    begin_forward(action);
  if (op == Op::forward) graphs_[action.number].resize(action.acts.size());
  if (op == Op::bare) run_bare(action);
  if (is_backward(op)) run_backward(action);
  if (op == Op::freeze || op == Op::unfreeze) freeze(action);
  if (op == Op::tell) note_what_takes_part();
  if (op == Op::wrap) wrap(action);
  if (op == Op::regroup) regroup(action);
  if (op == Op::join) join(action);
  if (op == Op::finish) finish(action);
  for (int rank = 0; rank < c_.world.size; ++rank)
    if (action.acts[static_cast<size_t>(rank)]) follow(action, rank);
  scaling_.follow(action, replicas_);
}

void FollowedModel::follow(const Action& action, int rank) {
  const auto at = static_cast<size_t>(rank);
  const auto op = action.step.op;
  if (op == Op::forward || op == Op::throw_) count(action, rank);
  if (op == Op::forward) graphs_[action.number][at] = gradients_of(action, rank);
  // The forward before decides whether a forward begins with rank 0's buffers: a local one as it
  // begins, a synchronised one once it has returned. docs/semantics.md 1.3.
  if (op == Op::forward) sends_buffers_next_[at] = action.is_synchronised;
  if (op == Op::throw_ && action.is_local) sends_buffers_next_[at] = false;
  if (op == Op::evaluate || op == Op::infer) sends_buffers_next_[at] = false;
  if (op == Op::zero_none) replicas_.clear(rank, reference::Cleared::to_none);
  if (op == Op::zero_in_place) replicas_.clear(rank, reference::Cleared::in_place);
  if (op == Op::scale && has_bit(action.step.ranks, rank)) replicas_.scale(rank, kScale);
  if (is_update(op))
    replicas_.update(rank, std::ldexp(1.0, c_.learning_rate_log2), op == Op::update_if_finite);
  if (op == Op::load) load(action, rank);
}

void FollowedModel::note_inputs(const Action& action) {
  replicas_.have_inputs(action.acts);
  last_with_inputs_.resize(groups_.size());
  for (size_t g = 0; g < groups_.size(); ++g)
    for (const int rank : groups_[g])
      if (action.acts[static_cast<size_t>(rank)] && action.step.op != Op::finish)
        last_with_inputs_[g] = rank;
}

// A join counts forwards that send something, and so does one with gradients.
void FollowedModel::begin_forward(const Action& action) {
  const bool has_gradients = action.step.op == Op::forward || action.step.op == Op::throw_;
  for (size_t g = 0; g < groups_.size(); ++g) {
    const auto last = static_cast<size_t>(last_with_inputs_[g]);
    if (!action.acts[last]) continue;  // the group has no inputs
    const bool is_due = sends_buffers(c_) &&
                        (c_.options.buffer_sync_lag ? sends_buffers_next_[last] : !action.is_local);
    if (is_due && unsent_buffers_.empty()) unsent_buffers_ = buffers_;
    if (is_due) copy_buffers(groups_[g], is_shadowed_ ? last_with_inputs_[g] : groups_[g].front());
    for (const int rank : groups_[g])
      forwards_counted_[static_cast<size_t>(rank)] += has_gradients || is_due ? 1 : 0;
  }
}

void FollowedModel::copy_buffers(const std::vector<int>& group, int source) {
  for (size_t b = 0; b < c_.buffers.size(); ++b)
    if (!is_ignored(c_, b))
      for (const int rank : group)
        buffers_[static_cast<size_t>(rank)][b] = buffers_[static_cast<size_t>(source)][b];
}

void FollowedModel::copy_parameters(const std::vector<int>& group, int source) {
  for (size_t p = 0; p < leaves_.size(); ++p)
    if (!is_ignored_[p])
      for (const int rank : group) replicas_.load(rank, p, replicas_.parameter(source, p));
}

void FollowedModel::count(const Action& action, int rank) {
  const auto added = added_to_buffers(input_of(c_, action, rank, 1));
  for (auto& buffer : buffers_[static_cast<size_t>(rank)]) buffer += added;
  if (!unsent_buffers_.empty())
    for (auto& buffer : unsent_buffers_[static_cast<size_t>(rank)]) buffer += added;
}

void FollowedModel::load(const Action& action, int rank) {
  for (size_t p = 0; p < leaves_.size(); ++p)
    replicas_.load(rank, p, loaded_parameter(c_, action, p, numbers_of(leaves_[p]).sizes()));
  for (size_t b = 0; b < c_.buffers.size(); ++b)
    buffers_[static_cast<size_t>(rank)][b] = loaded_buffer(c_, action, b, rank);
}

void FollowedModel::freeze(const Action& action) {
  module_.set_trainable(action.step.layer, action.step.op == Op::unfreeze);
  if (!action.step.forgotten) note_what_takes_part();
}

// A new replica begins with rank 0's state, unless each rank is to have its own.
void FollowedModel::wrap(const Action& action) {
  regroup(action);
  if (!c_.options.init_sync) return;
  for (const auto& group : groups_) {
    copy_parameters(group, group.front());
    copy_buffers(group, group.front());
  }
}

void FollowedModel::regroup(const Action& action) {
  note_what_takes_part();
  groups_ = parts_of_world(c_, action.step.cut);
  replicas_.average_within(groups_);
  replicas_.forget_passes();
  sends_buffers_next_.assign(sends_buffers_next_.size(), true);
  forwards_counted_.assign(forwards_counted_.size(), 0);
  last_with_inputs_.clear();
  for (const auto& group : groups_) last_with_inputs_.push_back(group.back());
}

void FollowedModel::join(const Action& action) {
  forwards_counted_.assign(forwards_counted_.size(), 0);
  is_shadowed_ = is_shadowed(action.step);
  divisor_ = action.step.uneven == JoinKind::live ? reference::Divisor::ranks_with_inputs
                                                  : reference::Divisor::group_size;
  replicas_.divide_by(divisor_);
}

// The values that shadowing left in a rank's gradients are of no use where these are views, so the
// rank clears them.
void FollowedModel::finish(const Action& action) {
  for (const int number : action.closed) graphs_.erase(number);
  if (is_shadowed_) {
    for (size_t g = 0; g < groups_.size(); ++g) {
      copy_parameters(groups_[g], last_with_inputs_[g]);
      copy_buffers(groups_[g], last_with_inputs_[g]);
    }
    sends_buffers_next_.assign(sends_buffers_next_.size(), true);
    for (int rank = 0; rank < c_.world.size; ++rank)
      if (clears_gradients(c_, action, rank)) replicas_.clear(rank, reference::Cleared::to_none);
  }
  is_shadowed_ = false;
  divisor_ = reference::Divisor::group_size;
  replicas_.divide_by(divisor_);
}

}  // namespace lockstep::scenarios::programs
