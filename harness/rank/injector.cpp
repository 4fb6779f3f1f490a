#include "harness/rank/injector.h"

#include "harness/rank/record_writer.h"

#include <chrono>
#include <csignal>
#include <map>
#include <thread>
#include <unistd.h>
#include <utility>

namespace lockstep {

namespace {

std::string moment_of(const Injection& injection) {
  if (injection.collective >= 0) return "collective " + std::to_string(injection.collective);
  return "step " + std::to_string(injection.at.step) + ", " + injection.at.phase;
}

}  // namespace

// Exits at once, like a rank that is ended from outside its program.
PlannedFailures fault_actions_of_this_process() {
  return {.delay = [](std::chrono::milliseconds time) { std::this_thread::sleep_for(time); },
          .kill = [] { kill(getpid(), SIGKILL); },
          .stop = [] { kill(getpid(), SIGSTOP); },
          .exit = [](int status) { _exit(status); }};
}

Injector::Injector(const std::vector<Injection>& all, int rank, RecordWriter& journal,
                   PlannedFailures planned_failures)
    : journal_(journal), planned_failures_(std::move(planned_failures)) {
  for (const auto& injection : all)
    if (injection.rank == rank) planted_.push_back(injection);
}

void Injector::strike(const Injection& injection) {
  using Kind = CollectiveFault::Kind;
  static const std::map<InjectionKind, Kind> kTreatments{
      {InjectionKind::error, Kind::failed},
      {InjectionKind::drop, Kind::dropped},
      {InjectionKind::duplicate, Kind::duplicated},
      {InjectionKind::corrupt, Kind::corrupted}};
  const std::chrono::milliseconds time(injection.amount);
  if (const auto found = kTreatments.find(injection.kind); found != kTreatments.end()) {
    const std::lock_guard lock(mutex_);
    next_ = {.kind = found->second, .bit = injection.amount};
  } else if (injection.kind == InjectionKind::slow) {
    const std::lock_guard lock(mutex_);
    slow_by_ = time;
  } else if (injection.kind == InjectionKind::late) {
    const std::lock_guard lock(mutex_);
    late_by_ = time;
  } else if (injection.kind == InjectionKind::delay) {
    planned_failures_.delay(time);
  } else if (injection.kind == InjectionKind::kill) {
    planned_failures_.kill();
  } else if (injection.kind == InjectionKind::stop) {
    planned_failures_.stop();
  } else if (injection.kind == InjectionKind::exit) {
    planned_failures_.exit(injection.amount);
  } else if (injection.kind == InjectionKind::throw_) {
    throw InjectedError("injected into rank " + std::to_string(injection.rank) + " at " +
                        moment_of(injection));
  }
}

CollectiveFault Injector::at_collective(int64_t sequence) {
  strike_where([&](const Injection& planted) { return planted.collective == sequence; });
  std::unique_lock lock(mutex_);
  const auto slow_by = slow_by_;
  auto treatment = std::exchange(next_, {});
  treatment.late_by = late_by_;
  lock.unlock();
  if (slow_by.count() > 0) planned_failures_.delay(slow_by);
  return treatment;
}

void Injector::at_moment(const Moment& moment) {
  strike_where(
      [&](const Injection& planted) { return planted.collective < 0 && planted.at == moment; });
}

template <class Matches>
void Injector::strike_where(const Matches& matches) {
  std::vector<Injection> due;
  {
    const std::lock_guard lock(mutex_);
    const auto later = std::stable_partition(planted_.begin(), planted_.end(),
                                             [&](const auto& each) { return !matches(each); });
    due.assign(later, planted_.end());
    planted_.erase(later, planted_.end());
  }
  for (const auto& injection : due) {
    journal_.append(FrameKind::injection, to_json(injection));
    strike(injection);
  }
}

}  // namespace lockstep
