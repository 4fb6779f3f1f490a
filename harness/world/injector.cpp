#include "harness/world/injector.h"

#include "harness/process/journal.h"

#include <chrono>
#include <csignal>
#include <thread>
#include <unistd.h>

namespace lockstep {

namespace {

std::string place_of(const Injection& injection) {
  if (injection.collective >= 0) return "collective " + std::to_string(injection.collective);
  return "step " + std::to_string(injection.at.step) + ", " + injection.at.phase;
}

void strike(const Injection& injection) {
  if (injection.kind == "delay")
    std::this_thread::sleep_for(std::chrono::milliseconds(injection.amount));
  else if (injection.kind == "kill")
    kill(getpid(), SIGKILL);
  else if (injection.kind == "stop")
    kill(getpid(), SIGSTOP);
  else if (injection.kind == "exit")
    _exit(injection.amount);  // at once, as a rank that is ended from outside its program
  else if (injection.kind == "throw")
    throw InjectedError("injected into rank " + std::to_string(injection.rank) + " at " +
                        place_of(injection));
  else
    throw std::logic_error("no injection is called '" + injection.kind + "'");
}

}  // namespace

Injector::Injector(const std::vector<Injection>& all, int rank, JournalWriter& journal)
    : journal_(journal) {
  for (const auto& injection : all)
    if (injection.rank == rank) planted_.push_back(injection);
}

void Injector::at_collective(int64_t sequence) {
  strike_where([&](const Injection& planted) { return planted.collective == sequence; });
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
