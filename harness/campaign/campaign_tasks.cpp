// Decides what a lane of a campaign does next.
#include "harness/campaign/campaign.h"

namespace lockstep {

// Blocks while others are at work that may leave something to do. The lane is busy from then on.
std::optional<Campaign::Task> Campaign::next_task() {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (stopped_ || !lost_.empty()) return {};
    if (auto task = find_task()) {
      ++lanes_busy_;
      return task;
    }
    if (lanes_busy_ == 0) return {};
    changed_.wait(lock);
  }
}

std::optional<Campaign::Task> Campaign::find_task() {
  if (batch_)
    if (const auto index = batch_->list.next())
      return Task{.kind = Task::Kind::candidate, .index = *index, .batch = batch_};
  if (const auto job = job_to_shrink()) {
    jobs_[*job].stage = RunningJob::Stage::shrinking;
    return Task{.kind = Task::Kind::shrinks, .job = *job};
  }
  if (auto found = find_case()) return found;
  if (options_.draws_on && hand_out_) {
    grow_all();
    if (auto found = find_case()) return found;
  }
  return find_job_to_end();
}

// In the order of the jobs; where a time is set, of each job in turn, so that all get their share.
std::optional<Campaign::Task> Campaign::find_case() {
  if (time_is_over()) {
    hand_out_ = false;
    for (auto& running : jobs_) running.tally.hand_out_no_more();
  }
  for (size_t i = 0; i < jobs_.size(); ++i) {
    const size_t job = (next_job_ + i) % jobs_.size();
    // Cases of lower numbers still decide the result of a job that has failed.
    if (!hand_out_ && jobs_[job].evidence.empty()) continue;
    if (const auto index = jobs_[job].tally.next()) {
      if (options_.time) next_job_ = job + 1;
      return Task{.kind = Task::Kind::plays, .job = job, .index = *index};
    }
  }
  return {};
}

// A job that waited for more cases, of which none comes, or whose time was over.
std::optional<Campaign::Task> Campaign::find_job_to_end() {
  for (size_t job = 0; job < jobs_.size(); ++job) {
    auto& running = jobs_[job];
    if (running.stage != RunningJob::Stage::playing || may_grow(running)) continue;
    const bool waited = options_.draws_on && !hand_out_ && running.evidence.empty();
    if (waited && running.tally.any_played()) running.tally.hand_out_no_more();
    if (!running.tally.complete() || !running.tally.any_played()) continue;
    running.stage = RunningJob::Stage::ends;
    return Task{.kind = Task::Kind::ends, .job = job};
  }
  return {};
}

bool Campaign::may_grow(const RunningJob& running) const {
  return options_.draws_on && hand_out_ && running.tally.job().more && !running.has_no_more &&
         running.tally.culprits().empty();
}

void Campaign::grow_all() {
  for (auto& running : jobs_)
    if (running.stage == RunningJob::Stage::playing && may_grow(running))
      running.has_no_more = !running.tally.grow();
}

bool Campaign::time_is_over() const {
  return options_.time && began_ && options_.now() - *began_ >= *options_.time;
}

}  // namespace lockstep
