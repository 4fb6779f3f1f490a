// Runs the ranks of a simulated world, each on one of the RankThreads, exactly one at a time. A
// rank runs until it waits for something that has not happened, yields, or ends; then the chooser
// picks the rank that continues. State that ranks share therefore needs no locks, and the same
// choices give the same execution. No torch.
//
// Time is virtual: every rank has a clock, which stands still unless advance() or a wait moves it.
#pragma once

#include "harness/worlds/sim/chooser.h"
#include "harness/worlds/sim/rank_threads.h"
#include "harness/worlds/sim/turn.h"

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::sim {

using Nanoseconds = std::chrono::nanoseconds;

// Something that happens at most once, at a time, and that ranks wait for.
class Event {
 public:
  bool has_happened() const { return happened_; }
  Nanoseconds when() const { return when_; }

 private:
  friend class Scheduler;
  bool happened_ = false;
  Nanoseconds when_{};
  std::vector<int> waiting_;
};

// Describes what a rank waits for: "collective #3, allreduce of 6 float32; rank 2 has not come".
using What = std::function<std::string()>;

// Called in the thread of the rank, as it begins to run, and as it is about to stop running.
struct Turns {
  std::function<void(int rank)> begin, end;
  // A thread that a rank has started may not communicate: with an interpreter it runs on when its
  // rank does not, and would have the turn of another one. Else a rank waits for its threads.
  bool are_of_ranks_alone = false;
};

class Scheduler {
 public:
  // `limit`: the virtual time at which waits end; see run. `rank_threads` outlives this.
  Scheduler(RankThreads& rank_threads, int ranks, Chooser chooser, Nanoseconds limit,
            Turns turns = {});
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // The state of a rank's thread when run() returns. `parked` ones called park(); `waiting` ones
  // can never run again: no rank is left that could cause their event.
  enum class State { ended, parked, waiting };
  struct ThreadEnd {
    State state = State::ended;
    std::string waits_for;
  };

  // Runs `body(rank)` for every rank, on its thread, until no rank can run. A wait with a timeout
  // ends once no other rank can run, the earliest first; but nothing continues beyond `limit`.
  // Threads of ranks that have not ended stay frozen for the life of the process, and this object
  // and what `body` refers to must then never be destroyed. `body` must not throw. Once.
  // Throws TierError, before any rank runs, where a rank gets no thread.
  std::vector<ThreadEnd> run(std::function<void(int rank)> body);

  // All functions below are for the rank that runs. Throws std::runtime_error in a thread that a
  // rank has started, where turns are of ranks alone.
  void require_thread_of_rank() const;
  int running() const { return running_; }
  Nanoseconds now() const { return clock(running_); }
  void advance(Nanoseconds time) { clock(running_) += time; }

  // Lets the chooser choose again, this rank among the others.
  void yield();

  // For a rank that polls whether something has happened: every other rank that can run does so
  // first, and `time` passes.
  void stand_back(Nanoseconds time, What what);

  // Returns once `event` has happened and this rank's clock has reached its time; false if that is
  // later than `timeout` from now. `what` describes what the rank waits for, and is called at the
  // end.
  bool wait(Event& event, What what, std::optional<Nanoseconds> timeout = {});

  // `event` happens at `when`, in virtual time. Does nothing if it has happened.
  void happen(Event& event, Nanoseconds when);

  // This rank never runs again.
  [[noreturn]] void park();

  const Chooser& chooser() const { return chooser_; }

 private:
  struct Rank {
    Turn turn;
    bool has_begun = false;
    State state = State::waiting;
    Nanoseconds clock{};
    Event* waits_for = nullptr;
    std::optional<Nanoseconds> until;
    What what;
  };

  Nanoseconds& clock(int rank) { return ranks_[static_cast<size_t>(rank)]->clock; }
  Nanoseconds clock(int rank) const { return ranks_[static_cast<size_t>(rank)]->clock; }
  void live(int rank);
  void let_run(int rank);
  void hand_over(bool comes_back);
  int next_rank();
  void let_time_pass();
  void make_runnable(int rank);

  RankThreads& threads_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  std::vector<int> runnable_;    // ascending
  std::vector<int> stood_back_;  // run once no other rank can
  Chooser chooser_;
  const Nanoseconds limit_;
  const Turns turns_;
  std::function<void(int)> body_;
  int running_ = -1;
  Turn over_;
};

}  // namespace lockstep::sim
