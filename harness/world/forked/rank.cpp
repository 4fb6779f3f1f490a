#include "harness/world/forked/rank.h"

#include "harness/core/tier.h"
#include "harness/process/journal.h"
#include "harness/world/gloo.h"
#include "harness/world/injector.h"
#include "harness/world/rank_context.h"
#include "harness/world/shared_memory_store.h"
#include "harness/world/subject.h"
#include "harness/world/tap.h"

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <cerrno>
#include <csignal>
#include <cstdio>
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

struct TappedGroup {
  c10::intrusive_ptr<c10d::ProcessGroup> group;
  std::shared_ptr<TapLog> log;
};

// The tap goes by the wrapped backend's type and name, so that c10d treats it as that backend.
TappedGroup make_group(const RankTask& task, const c10::intrusive_ptr<c10d::Store>& store,
                       JournalWriter& journal, Injector& injector) {
  const auto meeting_point = c10::make_intrusive<c10d::PrefixStore>("group", store);
  auto log = std::make_shared<TapLog>("world", journal, injector);
  const auto tap = c10::make_intrusive<Tap>(
      gloo_backend(meeting_point, task.rank, task.size, patience(task)), log);
  auto group = c10::make_intrusive<c10d::ProcessGroup>(store, task.rank, task.size);
  const auto type = c10d::ProcessGroup::BackendType::GLOO;
  group->setBackend(c10::DeviceType::CPU, type, tap);
  group->setDefaultBackend(type);
  group->setGroupName("world");
  return {std::move(group), std::move(log)};
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
  TappedGroup tapped;
  // Never destroyed, and the group with it.
  auto& here = *new RankContext({.rank = task.rank,
                                 .size = task.size,
                                 .subject = task.subject,
                                 .journal = journal,
                                 .injector = injector,
                                 .store = store,
                                 .make_group =
                                     [&] {
                                       tapped = make_group(task, store, journal, injector);
                                       return tapped.group;
                                     },
                                 .make_scratch = [&] { return made_scratch(task.scratch); }});
  const Ending ending = ending_of([&] { task.scenario.program(task.c, here); });
  if (tapped.log) tapped.log->settle();
  record_ending(journal, ending);
  std::cout.flush();
  std::fflush(nullptr);
  if (!ended_well(ending)) _exit(1);
  task.meeting.wait_for_others(task.size, task.deadline);
  _exit(0);
}

}  // namespace lockstep
