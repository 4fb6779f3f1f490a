#include "train/collectives.h"
#include "train/collectives/call.h"
#include "train/model_averaging.h"

#include <string>

namespace lockstep {

namespace {

void check_warmup(ProgramCall& call, std::int64_t warmup_steps) {
  call.compare("warmup_steps", std::to_string(warmup_steps));
  if (warmup_steps < 0)
    call.refuse("warmup_steps is " + std::to_string(warmup_steps) + ", expected at least 0");
}

std::string text_of(const AveragingLevel& level) {
  return "period " + std::to_string(level.period) + " in groups of " +
         std::to_string(level.group_size);
}

std::string text_of(const std::vector<AveragingLevel>& levels) {
  std::string text;
  for (const AveragingLevel& level : levels) text += (text.empty() ? "" : ", ") + text_of(level);
  return text.empty() ? "none" : text;
}

std::string problem_with_levels(const std::vector<AveragingLevel>& levels, int world_size) {
  if (levels.empty()) return "levels are none, expected at least one";
  AveragingLevel below{.period = 0, .group_size = 1};
  for (const AveragingLevel& level : levels) {
    if (level.period <= below.period)
      return "levels are " + text_of(levels) + ", expected periods that grow from at least 1";
    const bool is_multiple = level.group_size >= 1 && level.group_size % below.group_size == 0;
    if (!is_multiple)
      return "levels are " + text_of(levels) +
             ", expected groups each of which is a multiple of the one before";
    below = level;
  }
  if (below.group_size != world_size)
    return "levels are " + text_of(levels) + ", expected the last groups to be of all " +
           std::to_string(world_size) + " ranks";
  return "";
}

}  // namespace

PeriodicModelAverager::PeriodicModelAverager(c10::intrusive_ptr<c10d::ProcessGroup> group,
                                             const PeriodicAveragingOptions& options)
    : group_(std::move(group)), options_(options) {
  ProgramCall call(group_, "PeriodicModelAverager", {});
  call.compare("period", std::to_string(options_.period));
  if (options_.period < 1)
    call.refuse("period is " + std::to_string(options_.period) + ", expected at least 1");
  check_warmup(call, options_.warmup_steps);
  call.agree();
}

c10::intrusive_ptr<c10d::ProcessGroup> PeriodicModelAverager::group_at(std::int64_t step) const {
  const std::int64_t since = step - options_.warmup_steps;
  return since >= 0 && since % options_.period == 0 ? group_ : nullptr;
}

HierarchicalModelAverager::HierarchicalModelAverager(
    const c10::intrusive_ptr<c10d::ProcessGroup>& group,
    const HierarchicalAveragingOptions& options)
    : warmup_steps_(options.warmup_steps) {
  ProgramCall call(group, "HierarchicalModelAverager", {});
  call.compare("levels", text_of(options.levels));
  const std::string problem = problem_with_levels(options.levels, group->getSize());
  if (!problem.empty()) call.refuse(problem);
  check_warmup(call, warmup_steps_);
  call.agree();
  for (const auto& [period, size] : options.levels)
    group_by_period_[period] = size == group->getSize() ? group : new_subgroups(group, size);
}

c10::intrusive_ptr<c10d::ProcessGroup> HierarchicalModelAverager::group_at(
    std::int64_t step) const {
  if (step < warmup_steps_) return nullptr;
  for (const auto& [period, group] : group_by_period_)
    if (step % period == 0) return group;
  return nullptr;
}

}  // namespace lockstep
