#include "harness/worlds/sim/rank_threads.h"

#include "harness/cases/tier.h"
#include "harness/process/stacks.h"
#include "harness/process/system_limit.h"
#include "harness/worlds/sim/turn.h"

#include <algorithm>
#include <pthread.h>
#include <string>
#include <system_error>
#include <thread>

namespace lockstep::sim {

struct RankThreads::Mate {
  std::function<void()> task;  // empty: the thread ends
  Turn begin, over;
  std::thread thread;

  explicit Mate(int rank) : thread([this, rank] { work(rank); }) {}
  ~Mate() {
    task = nullptr;
    begin.release();
    thread.join();
  }

  void work(int rank) {
    pthread_setname_np(pthread_self(), ("rank " + std::to_string(rank)).c_str());
    const SignalStack signal_stack;
    for (begin.acquire(); task; begin.acquire()) {
      task();
      over.release();
    }
  }
};

RankThreads::RankThreads() = default;
RankThreads::~RankThreads() = default;

int RankThreads::size() const {
  return static_cast<int>(std::count_if(mates_.begin(), mates_.end(),
                                        [](const auto& mate) { return mate != nullptr; }));
}

void RankThreads::create(int size) {
  for (int rank = 0; rank < size; ++rank) mate(rank);
}

RankThreads::Mate& RankThreads::mate(int rank) {
  const auto at = static_cast<size_t>(rank);
  if (mates_.size() <= at) mates_.resize(at + 1);
  try {
    if (!mates_[at]) mates_[at] = std::make_unique<Mate>(rank);
  } catch (const std::system_error& error) {
    throw TierError("a simulated rank gets no thread: " + reason_of(error.code().value()));
  }
  return *mates_[at];
}

void RankThreads::start(int rank, std::function<void()> task) {
  auto& chosen = mate(rank);
  chosen.task = std::move(task);
  chosen.begin.release();
}

void RankThreads::wait_for(int rank) {
  mates_.at(static_cast<size_t>(rank))->over.acquire();
}

void RankThreads::abandon(int rank) {
  auto& mate = mates_.at(static_cast<size_t>(rank));
  mate->thread.detach();
  mate.release();
}

void RankThreads::keep(int most) {
  if (mates_.size() > static_cast<size_t>(most)) mates_.resize(static_cast<size_t>(most));
}

}  // namespace lockstep::sim
