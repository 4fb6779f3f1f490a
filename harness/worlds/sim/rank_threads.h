// Threads for the ranks of one simulated world after another: starting a thread that uses LibTorch,
// and ending it, costs as much as a step of a small network. No torch.
#pragma once

#include <functional>
#include <memory>
#include <vector>

namespace lockstep::sim {

class RankThreads {
 public:
  RankThreads();
  ~RankThreads();  // every task is over or abandoned
  RankThreads(const RankThreads&) = delete;
  RankThreads& operator=(const RankThreads&) = delete;

  // How many threads there are.
  int size() const;

  // Creates what is missing of the first `size` threads. Throws TierError, with the limit to raise,
  // where the system gives no more.
  void create(int size);

  // Thread `rank` runs `task`, which must not throw; the thread is created if missing, and must
  // have no other task. From any thread, one at a time.
  void start(int rank, std::function<void()> task);

  // Blocks until thread `rank` has finished its task.
  void wait_for(int rank);

  // Thread `rank` will never finish its task: it stays frozen.
  void abandon(int rank);

  // Ends all but the first `most` threads; none of them has a task.
  void keep(int most);

 private:
  struct Mate;
  Mate& mate(int rank);

  std::vector<std::unique_ptr<Mate>> mates_;  // by rank; null where there is none
};

}  // namespace lockstep::sim
