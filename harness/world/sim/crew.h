// Threads for the ranks of one simulated world after another: starting a thread that uses LibTorch,
// and ending it, costs as much as a step of a small network. No torch.
#pragma once

#include <functional>
#include <memory>
#include <vector>

namespace lockstep::sim {

class Crew {
 public:
  Crew();
  ~Crew();  // every task is over or abandoned
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  // How many threads there are.
  int size() const;

  // Thread `rank` does `task`, which must not throw; it is made where it is missing, and has no
  // other task. From any thread, one at a time.
  void start(int rank, std::function<void()> task);

  // Blocks until thread `rank` is out of its task.
  void wait_for(int rank);

  // Thread `rank` will never be out of its task: it is left where it stands.
  void abandon(int rank);

  // Ends the threads behind the first `most`; none has a task.
  void keep(int most);

 private:
  struct Mate;
  std::vector<std::unique_ptr<Mate>> mates_;  // by rank; null where there is none
};

}  // namespace lockstep::sim
