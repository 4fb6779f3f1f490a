#include "harness/world/forked/play.h"

#include "harness/core/text.h"
#include "harness/core/tier.h"
#include "harness/world/gloo.h"
#include "harness/world/subject.h"

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <iostream>
#include <sys/stat.h>

namespace lockstep {

namespace {

using Clock = std::chrono::steady_clock;

// By how much Gloo's patience exceeds the case's: the deadline decides, and says "stuck".
constexpr std::chrono::minutes kBeyondDeadline{1};

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

}  // namespace

// The tap goes by the wrapped backend's type and name, so that c10d treats it as that backend.
TappedGroup make_group(const std::vector<int>& ranks, int own_rank, std::chrono::milliseconds limit,
                       const c10::intrusive_ptr<c10d::Store>& store,
                       const std::shared_ptr<TapLog>& log) {
  const auto rank =
      static_cast<int>(std::find(ranks.begin(), ranks.end(), own_rank) - ranks.begin());
  const auto size = static_cast<int>(ranks.size());
  const auto own_store = c10::make_intrusive<c10d::PrefixStore>(log->group(), store);
  const auto tap = c10::make_intrusive<Tap>(
      gloo_backend(c10::make_intrusive<c10d::PrefixStore>("group", own_store), rank, size, limit),
      log);
  auto group = c10::make_intrusive<c10d::ProcessGroup>(own_store, rank, size);
  const auto type = c10d::ProcessGroup::BackendType::GLOO;
  group->setBackend(c10::DeviceType::CPU, type, tap);
  group->setDefaultBackend(type);
  group->setGroupName(log->group());
  return {group, tap};
}

bool ended_well(const Ending& ending) {
  return ending.kind == Ending::Kind::returned || ending.kind == Ending::Kind::refused;
}

Play::Play(const RankTask& task, const TappedGroup* kept)
    : task_(task),
      kept_(kept),
      journal_(task.journal),
      injector_(injections(task.c), task.rank, journal_),
      store_(c10::make_intrusive<SharedMemoryStore>(task.store, patience(task))),
      here_({.rank = task.rank,
             .size = task.size,
             .subject = task.subject,
             .journal = journal_,
             .injector = injector_,
             .store = store_,
             .make_group = [this](const std::vector<int>& ranks) { return group_of(ranks); },
             .make_scratch = [this] { return made_scratch(task_.scratch); }}) {
  journal_.append(FrameKind::begin, {{"protocol", kProtocol},
                                     {"rank", task.rank},
                                     {"world", task.size},
                                     {"case", hash_of(task.c)}});
}

// A full journal has room for no ending; its flag says so.
Ending Play::run() {
  const Ending ending = ending_of([&] { task_.scenario.program(task_.c, here_); });
  for (const auto& log : logs_) log->settle();
  try {
    journal_.finish(ending);
  } catch (const JournalFull&) {
  }
  std::cout.flush();
  std::fflush(nullptr);
  return ending;
}

size_t Play::pending_collectives() const {
  size_t pending = 0;
  for (const auto& log : logs_) pending += log->pending();
  return pending;
}

c10::intrusive_ptr<c10d::ProcessGroup> Play::group_of(const std::vector<int>& ranks) {
  logs_.push_back(std::make_shared<TapLog>(name_of_group(ranks, task_.size), journal_, injector_));
  if (kept_ && ranks.size() == static_cast<size_t>(task_.size)) {
    kept_->tap->follow(logs_.back());
    return kept_->group;
  }
  return make_group(ranks, task_.rank, patience(task_), store_, logs_.back()).group;
}

}  // namespace lockstep
