// One case on one rank of a forked world.
#pragma once

#include "harness/core/scenario.h"
#include "harness/process/journal.h"
#include "harness/world/forked/meeting.h"
#include "harness/world/injector.h"
#include "harness/world/rank_context.h"
#include "harness/world/shared_memory_store.h"
#include "harness/world/tap.h"

#include <chrono>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

namespace lockstep {

struct RankTask {
  const Scenario& scenario;
  const Case& c;
  const Subject& subject;
  int rank = 0;
  int size = 1;
  std::span<std::byte> journal;
  std::span<std::byte> store;
  Meeting& meeting;
  std::filesystem::path scratch;  // made by the first rank that wants it
  std::chrono::steady_clock::time_point deadline;
};

// A group whose collectives are recorded.
struct TappedGroup {
  c10::intrusive_ptr<c10d::ProcessGroup> group;
  c10::intrusive_ptr<Tap> tap;
};

// Over `ranks`, `own_rank` among them, which meet in `store`; every wait in it ends after `limit`.
// Collective; blocks.
TappedGroup make_group(const std::vector<int>& ranks, int own_rank, std::chrono::milliseconds limit,
                       const c10::intrusive_ptr<c10d::Store>& store,
                       const std::shared_ptr<TapLog>& log);

// One case on one rank, from its first record to its ending. The group of the whole world is `kept`
// or, where that is null, made when the program first asks for it.
class Play {
 public:
  // Both outlive it.
  Play(const RankTask& task, const TappedGroup* kept);

  // Runs the program and records how it ended.
  Ending run();

  // Issued and not done; once it has run.
  size_t pending_collectives() const;

 private:
  c10::intrusive_ptr<c10d::ProcessGroup> group_of(const std::vector<int>& ranks);

  const RankTask& task_;
  const TappedGroup* const kept_;
  JournalWriter journal_;
  Injector injector_;
  c10::intrusive_ptr<SharedMemoryStore> store_;
  std::vector<std::shared_ptr<TapLog>> logs_;
  RankContext here_;
};

// True for a program that returned or refused.
bool ended_well(const Ending& ending);

}  // namespace lockstep
