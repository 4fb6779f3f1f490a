#include "harness/world/forked/rank.h"

#include "harness/process/zygote.h"
#include "harness/world/ambient.h"

#include <csignal>
#include <cstdlib>
#include <iterator>
#include <numeric>
#include <sys/wait.h>
#include <unistd.h>

namespace lockstep {

namespace {

using Clock = std::chrono::steady_clock;

// What launchers tell their processes, so that code which looks there finds the truth.
void tell_environment(int rank, int size) {
  setenv("RANK", std::to_string(rank).c_str(), 1);
  setenv("WORLD_SIZE", std::to_string(size).c_str(), 1);
}

// As in a Python program: writing to a dead peer is an error, not the end of the process.
void set_signals() {
  std::signal(SIGTERM, SIG_DFL);
  std::signal(SIGPIPE, SIG_IGN);
}

}  // namespace

int run_rank(const RankTask& task) {
  set_signals();
  tell_environment(task.rank, task.size);
  auto& play = *new Play(task, nullptr);  // never destroyed, and its groups with it
  if (!ended_well(play.run())) _exit(1);
  task.meeting.wait_for_others(task.size, task.deadline);
  _exit(kPlayed);
}

namespace {

// What a process has that a case must not change, beside what is ambient.
struct Holdings {
  int threads = 0, descriptors = 0;
  bool child = false;

  static int entries(const char* folder) {
    return static_cast<int>(std::distance(std::filesystem::directory_iterator(folder),
                                          std::filesystem::directory_iterator()));
  }
  // Also one that has ended and that nobody waited for.
  static bool has_child() {
    siginfo_t child{};
    return waitid(P_ALL, 0, &child, WEXITED | WSTOPPED | WNOHANG | WNOWAIT) == 0;
  }
  static Holdings now() { return {thread_count(), entries("/proc/self/fd"), has_child()}; }
};

// A world's own group may wait as long as it likes: the server keeps the deadlines.
constexpr std::chrono::hours kStandingPatience{24};

// A rank's process between two cases.
class Standing {
 public:
  explicit Standing(const StandingRank& is) : is_(is) {
    tell_environment(is.rank, is.size);
    const auto store = c10::make_intrusive<SharedMemoryStore>(is.store, kStandingPatience);
    std::vector<int> all(static_cast<size_t>(is.size));
    std::iota(all.begin(), all.end(), 0);
    const auto unheard = std::make_shared<TapLog>("world", nobody_, no_injections_);
    kept_ = make_group(all, is.rank, kStandingPatience, store, unheard);
    use_once();
    ambient_ = Ambient::capture();
    holdings_ = Holdings::now();
  }

  // True if the rank can play another case.
  bool play(const RankOrder& order) {
    ambient_.restore();
    const RankTask task{.scenario = order.scenario,
                        .c = order.c,
                        .subject = order.subject,
                        .rank = is_.rank,
                        .size = is_.size,
                        .journal = is_.journal,
                        .store = is_.store,
                        .meeting = is_.meeting,
                        .scratch = is_.scratch,
                        .deadline = Clock::now() + order.limit};
    auto play = std::make_unique<Play>(task, &kept_);
    if (!ended_well(play->run())) return false;
    is_.meeting.wait_for_others(is_.size, task.deadline);
    auto left = pending(*play);
    // With collectives under way destroying their group would block; the process ends anyway.
    if (left.empty())
      play.reset();
    else
      play.release();
    append(left, changes());
    is_.done(left);
    return left.empty();
  }

 private:
  // What is made at its first use is made now: threads of the autograd engine, buffers of Gloo.
  void use_once() {
    const auto parameter = torch::ones({1}, torch::requires_grad());
    (parameter * 2).sum().backward();
    std::vector<at::Tensor> tensors{torch::ones({1})};
    kept_.group->allreduce(tensors)->wait();
    auto generator = at::detail::getDefaultCPUGenerator();
    generator.set_current_seed(0);
  }

  static std::vector<std::string> pending(const Play& play) {
    const auto count = play.pending_collectives();
    if (count == 0) return {};
    return {std::to_string(count) + " collective(s) still under way"};
  }

  // The generator, grad mode and the default dtype are put back before every case.
  std::vector<std::string> changes() const {
    std::vector<std::string> out;
    auto now = Ambient::capture();
    for (auto& difference : ambient_.lasting_differences(now)) out.push_back(std::move(difference));
    const auto has = Holdings::now();
    const auto more = [&](int before, int after, const std::string& what) {
      if (after > before) out.push_back(std::to_string(after - before) + " " + what);
    };
    more(holdings_.threads, has.threads, "thread(s) more than before");
    more(holdings_.descriptors, has.descriptors, "open descriptor(s) more than before");
    if (has.child) out.push_back("a process that it started");
    return out;
  }

  static void append(std::vector<std::string>& all, std::vector<std::string> more) {
    all.insert(all.end(), more.begin(), more.end());
  }

  const StandingRank& is_;
  std::vector<std::byte> scrap_ = std::vector<std::byte>(size_t{1} << 16);
  JournalWriter nobody_{scrap_};  // hears what happens between cases
  Injector no_injections_{{}, 0, nobody_};
  TappedGroup kept_;
  Ambient ambient_;
  Holdings holdings_;
};

}  // namespace

int serve_rank(const StandingRank& is) {
  set_signals();
  auto& standing = *new Standing(is);  // never destroyed, and its group with it
  while (const auto order = is.next())
    if (!standing.play(*order)) return 1;
  return 0;
}

}  // namespace lockstep
