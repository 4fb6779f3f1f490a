#include "harness/worlds/sim/scheduler.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace lockstep::sim {

namespace {
constexpr int kNobody = -1;
thread_local const Scheduler* of_this_thread = nullptr;
}  // namespace

Scheduler::Scheduler(RankThreads& rank_threads, int ranks, Chooser chooser, Nanoseconds limit,
                     Turns turns)
    : threads_(rank_threads),
      chooser_(std::move(chooser)),
      limit_(limit),
      turns_(std::move(turns)) {
  for (int rank = 0; rank < ranks; ++rank) {
    ranks_.push_back(std::make_unique<Rank>());
    runnable_.push_back(rank);
  }
}

Scheduler::~Scheduler() = default;

std::vector<Scheduler::ThreadEnd> Scheduler::run(std::function<void(int)> body) {
  threads_.create(static_cast<int>(ranks_.size()));
  body_ = std::move(body);
  running_ = next_rank();
  if (running_ != kNobody) {
    let_run(running_);
    over_.acquire();
  }
  std::vector<ThreadEnd> ends;
  for (size_t i = 0; i < ranks_.size(); ++i) {
    const auto& rank = *ranks_[i];
    ends.push_back({rank.state, rank.state == State::waiting ? rank.what() : ""});
    const auto index = static_cast<int>(i);
    rank.state == State::ended ? threads_.wait_for(index) : threads_.abandon(index);
  }
  return ends;
}

void Scheduler::live(int rank) {
  of_this_thread = this;
  if (turns_.begin) turns_.begin(rank);
  body_(rank);
  ranks_[static_cast<size_t>(rank)]->state = State::ended;
  hand_over(false);
}

void Scheduler::let_run(int rank) {
  Rank& next = *ranks_[static_cast<size_t>(rank)];
  if (std::exchange(next.has_begun, true))
    next.turn.release();
  else
    threads_.start(rank, [this, rank] { live(rank); });
}

// After the release nothing of `this` may be used if the rank does not come back: the world may be
// gone by then.
void Scheduler::hand_over(bool comes_back) {
  const int self = running_;
  const int next = next_rank();
  if (next == self) return;
  if (turns_.end) turns_.end(self);
  auto& turn = ranks_[static_cast<size_t>(self)]->turn;
  running_ = next;
  if (next == kNobody)
    over_.release();
  else
    let_run(next);
  if (!comes_back) return;
  turn.acquire();
  if (turns_.begin) turns_.begin(self);
}

// Removes the rank from those that can run.
int Scheduler::next_rank() {
  if (runnable_.empty()) let_time_pass();
  if (runnable_.empty()) return kNobody;
  const int next = chooser_.choose(runnable_);
  runnable_.erase(std::lower_bound(runnable_.begin(), runnable_.end(), next));
  return next;
}

// Only ranks that yielded and ranks whose wait times out can run: picks the earliest of these and
// all of those, unless their time is over.
void Scheduler::let_time_pass() {
  int first = kNobody;
  auto earliest = limit_;
  for (size_t i = 0; i < ranks_.size(); ++i) {
    const auto& until = ranks_[i]->until;
    if (!until || *until > limit_ || (first != kNobody && *until >= earliest)) continue;
    first = static_cast<int>(i);
    earliest = *until;
  }
  for (const int rank : std::exchange(stood_back_, {}))
    if (clock(rank) <= limit_) make_runnable(rank);
  for (const int rank : runnable_)
    if (clock(rank) < earliest) return;
  if (first == kNobody) return;
  auto& waiting = ranks_[static_cast<size_t>(first)]->waits_for->waiting_;
  waiting.erase(std::find(waiting.begin(), waiting.end(), first));
  make_runnable(first);
}

void Scheduler::make_runnable(int rank) {
  Rank& woken = *ranks_[static_cast<size_t>(rank)];
  woken.until.reset();
  runnable_.insert(std::lower_bound(runnable_.begin(), runnable_.end(), rank), rank);
}

void Scheduler::require_thread_of_rank() const {
  if (turns_.are_of_ranks_alone && of_this_thread != this)
    throw std::runtime_error(
        "a thread that a simulated rank has started cannot communicate: use a tier of forked "
        "ranks");
}

void Scheduler::yield() {
  make_runnable(running_);
  hand_over(true);
}

void Scheduler::stand_back(Nanoseconds time, What what) {
  Rank& self = *ranks_[static_cast<size_t>(running_)];
  self.clock += time;
  self.what = std::move(what);
  stood_back_.push_back(running_);
  hand_over(true);
}

bool Scheduler::wait(Event& event, What what, std::optional<Nanoseconds> timeout) {
  Rank& self = *ranks_[static_cast<size_t>(running_)];
  const auto until = timeout ? std::optional(self.clock + *timeout) : std::nullopt;
  if (!event.happened_) {
    self.waits_for = &event;
    self.until = until;
    self.what = std::move(what);
    event.waiting_.push_back(running_);
    hand_over(true);
  }
  if (!event.happened_ || (until && event.when_ > *until)) {
    self.clock = std::max(self.clock, *until);
    return false;
  }
  self.clock = std::max(self.clock, event.when_);
  return true;
}

void Scheduler::happen(Event& event, Nanoseconds when) {
  if (event.happened_) return;
  event.happened_ = true;
  event.when_ = when;
  for (const int rank : event.waiting_) make_runnable(rank);
  event.waiting_.clear();
}

void Scheduler::park() {
  Rank& self = *ranks_[static_cast<size_t>(running_)];
  self.state = State::parked;
  hand_over(true);
  std::terminate();
}

}  // namespace lockstep::sim
