#include "harness/world/forked/rank.h"

#include "harness/core/text.h"
#include "harness/core/tier.h"
#include "harness/process/journal.h"
#include "harness/world/gloo.h"
#include "harness/world/injector.h"
#include "harness/world/rank_context.h"
#include "harness/world/shared_memory_store.h"
#include "harness/world/subject.h"
#include "harness/world/tap.h"

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <linux/futex.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace lockstep {

namespace {

using Clock = std::chrono::steady_clock;

// By how much Gloo's patience exceeds the case's: the deadline decides, and says "stuck".
constexpr std::chrono::minutes kBeyondDeadline{1};

constexpr uint32_t kCalledOff = 1u << 30;

void wake_all(std::atomic<uint32_t>& word) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAKE, INT32_MAX, nullptr, nullptr,
          0);
}

// Returns at a change of `word`, and at least twenty times a second.
void sleep_on(std::atomic<uint32_t>& word, uint32_t seen) {
  const timespec slice{0, 50'000'000};
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAIT, seen, &slice, nullptr, 0);
}

std::chrono::milliseconds patience(const RankTask& task) {
  return std::chrono::ceil<std::chrono::milliseconds>(task.deadline - Clock::now()) +
         kBeyondDeadline;
}

std::filesystem::path made_scratch(const std::filesystem::path& folder) {
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    throw std::filesystem::filesystem_error("no scratch folder", folder,
                                            std::error_code(errno, std::generic_category()));
  return folder;
}

// What a group is called in the trace.
std::string name_of_group(const std::vector<int>& ranks, int world_size) {
  if (ranks.size() == static_cast<size_t>(world_size)) return "world";
  std::vector<std::string> names;
  for (const int rank : ranks) names.push_back(std::to_string(rank));
  return "ranks " + joined(names, ",");
}

// The tap goes by the wrapped backend's type and name, so that c10d treats it as that backend.
c10::intrusive_ptr<c10d::ProcessGroup> make_group(const std::vector<int>& ranks,
                                                  const RankTask& task,
                                                  const c10::intrusive_ptr<c10d::Store>& store,
                                                  const std::shared_ptr<TapLog>& log) {
  const auto rank =
      static_cast<int>(std::find(ranks.begin(), ranks.end(), task.rank) - ranks.begin());
  const auto size = static_cast<int>(ranks.size());
  const auto own_store = c10::make_intrusive<c10d::PrefixStore>(log->group(), store);
  const auto tap = c10::make_intrusive<Tap>(
      gloo_backend(c10::make_intrusive<c10d::PrefixStore>("group", own_store), rank, size,
                   patience(task)),
      log);
  auto group = c10::make_intrusive<c10d::ProcessGroup>(own_store, rank, size);
  const auto type = c10d::ProcessGroup::BackendType::GLOO;
  group->setBackend(c10::DeviceType::CPU, type, tap);
  group->setDefaultBackend(type);
  group->setGroupName(log->group());
  return group;
}

// What launchers tell their processes, so that code which looks there finds the truth.
void tell_environment(const RankTask& task) {
  setenv("RANK", std::to_string(task.rank).c_str(), 1);
  setenv("WORLD_SIZE", std::to_string(task.size).c_str(), 1);
}

// Texts without native backtraces, whose addresses differ from run to run.
template <class Program>
Ending ending_of(const Program& program) {
  try {
    program();
    return {Ending::Kind::returned, ""};
  } catch (const Unsupported& error) {
    return {Ending::Kind::refused, error.what()};
  } catch (const JournalFull& error) {
    return {Ending::Kind::overflowed, error.what()};
  } catch (const c10::Error& error) {
    return {Ending::Kind::threw, error.what_without_backtrace()};
  } catch (const std::exception& error) {
    return {Ending::Kind::threw, error.what()};
  } catch (...) {
    return {Ending::Kind::threw, "something that is no std::exception"};
  }
}

bool ended_well(const Ending& ending) {
  return ending.kind == Ending::Kind::returned || ending.kind == Ending::Kind::refused;
}

// A full journal has room for no ending; its flag says so.
void record_ending(JournalWriter& journal, const Ending& ending) {
  try {
    journal.finish(ending);
  } catch (const JournalFull&) {
  }
}

}  // namespace

void Meeting::wait_for_others(int size, Clock::time_point until) {
  uint32_t here = returned.fetch_add(1) + 1;
  if (here == static_cast<uint32_t>(size)) wake_all(returned);
  while (here < static_cast<uint32_t>(size) && Clock::now() < until) {
    sleep_on(returned, here);
    here = returned.load();
  }
}

void Meeting::call_off() {
  returned.fetch_add(kCalledOff);
  wake_all(returned);
}

int run_rank(const RankTask& task) {
  std::signal(SIGTERM, SIG_DFL);
  // As in a Python program: writing to a dead peer is an error, not the end of the process.
  std::signal(SIGPIPE, SIG_IGN);
  JournalWriter journal(task.journal);
  journal.append(FrameKind::begin, {{"protocol", kProtocol},
                                    {"rank", task.rank},
                                    {"world", task.size},
                                    {"case", hash_of(task.c)}});
  Injector injector(injections(task.c), task.rank, journal);
  const auto store = c10::make_intrusive<SharedMemoryStore>(task.store, patience(task));
  tell_environment(task);
  std::vector<std::shared_ptr<TapLog>> logs;
  // Never destroyed, and its groups with it.
  auto& here = *new RankContext({.rank = task.rank,
                                 .size = task.size,
                                 .subject = task.subject,
                                 .journal = journal,
                                 .injector = injector,
                                 .store = store,
                                 .make_group =
                                     [&](const std::vector<int>& ranks) {
                                       logs.push_back(std::make_shared<TapLog>(
                                           name_of_group(ranks, task.size), journal, injector));
                                       return make_group(ranks, task, store, logs.back());
                                     },
                                 .make_scratch = [&] { return made_scratch(task.scratch); }});
  const Ending ending = ending_of([&] { task.scenario.program(task.c, here); });
  for (const auto& log : logs) log->settle();
  record_ending(journal, ending);
  std::cout.flush();
  std::fflush(nullptr);
  if (!ended_well(ending)) _exit(1);
  task.meeting.wait_for_others(task.size, task.deadline);
  _exit(0);
}

}  // namespace lockstep
