#include "tests/worlds/forked/toys.h"

#include "harness/rank/journal.h"
#include "harness/worlds/launched/launched_tier.h"
#include "tests/worlds/forked/acts.h"

#include <torch/torch.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <fcntl.h>
#include <fstream>
#include <iostream>
#include <pthread.h>
#include <sstream>
#include <thread>

namespace lockstep {

namespace {

void act_out(const std::string& act, RankContext& here) {
  if (act == "four_rounds") four_rounds(here);
  if (act == "look_before_waiting") look_before_waiting(here);
  if (act == "collectives") all_collectives(here);
  if (act == "reduce_reals") all_reduce_reals(here);
  if (act == "race") race(here);
  if (act == "meddle") meddle(here);
  if (act == "reduce_then_compute") compute(here, false);
  if (act == "reduce_and_compute") compute(here, true);
  if (act == "poll") poll(here);
  if (act == "pass_backward") pass_backward(here);
  if (act == "deadlock") {
    std::vector<at::Tensor> tensors{torch::ones({1})};
    here.group()->recv(tensors, 1 - here.rank(), 0)->wait();
  }

  if (act == "throw") throw std::runtime_error("a toy's own error");
  if (act == "throw_int") throw 5;
  if (act == "refuse") throw Unsupported("the toy lacks it");
  if (act == "exit_3") std::exit(3);
  if (act == "exit_0") std::exit(0);
  if (act == "abort") std::abort();
  if (act == "segv") raise(SIGSEGV);
  if (act == "kill") raise(SIGKILL);
  if (act == "loop")
    for (std::atomic<int> i = 0;; ++i) {
    }
  if (act == "overflow")
    for (;;) here.record("zeros", torch::zeros({1 << 20}));
  if (act == "overflow_and_catch") try {
      for (;;) here.record("zeros", torch::zeros({1 << 20}));
    } catch (const JournalFull&) {
    }
  if (act == "allreduce") all_reduce(here, 6);
  if (act == "fork_and_leave")
    if (fork() == 0)
      for (;;) pause();
  if (act == "print_and_die") {
    std::printf("printed\n");
    std::cout << "streamed" << std::endl;
    std::fprintf(stderr, "complained");
    raise(SIGKILL);
  }
  if (act == "leave_a_thread")
    std::thread([] {
      for (;;) pause();
    }).detach();
  if (act == "leave_a_descriptor") open("/dev/null", O_RDONLY);
  if (act == "change_the_environment") setenv("LOCKSTEP_TOY", "was here", 1);
  if (act == "leave_a_collective") {
    // Never destroyed: its destructor would wait.
    auto& tensors = *new std::vector<at::Tensor>{torch::ones({1})};
    auto& work =
        *new c10::intrusive_ptr<c10d::Work>(here.group()->recv(tensors, 1 - here.rank(), 7));
    (void)work;
  }
  if (act == "change_ambience") {
    torch::rand({3});
    at::GradMode::set_enabled(false);
    at::set_default_dtype(caffe2::TypeMeta::Make<double>());
  }
  if (act == "look_around") {
    here.record("draw", torch::rand({3}));
    here.record("ambience",
                std::vector<int64_t>{at::GradMode::is_enabled(),
                                     at::get_default_dtype() == caffe2::TypeMeta::Make<float>()});
  }
  if (act == "scratch") {
    std::ofstream(here.scratch() / ("rank" + std::to_string(here.rank()))) << "x";
    here.store()->add("written", 1);
    while (here.store()->add("written", 0) < here.size()) sched_yield();
    here.record("files", std::vector<int64_t>{static_cast<int64_t>(
                             testing_support::entries(here.scratch()).size())});
  }
  if (act == "tell_pid") here.record("pid", std::vector<int64_t>{getpid()});
  if (act == "rendezvous_in_store") {
    here.store()->add("count", 1);
    here.store()->set("from" + std::to_string(here.rank()), "x");
    for (int rank = 0; rank < here.size(); ++rank) here.store()->get("from" + std::to_string(rank));
  }
}

bool everybody_acts(const std::string& act) {
  return act == "refuse" || act == "scratch" || act == "rendezvous_in_store" || act == "train" ||
         act == "broadcast" || act == "reduce_and_record" || act == "look_around" ||
         act == "change_ambience" || act == "tell_pid" || act == "collectives" ||
         act == "reduce_reals" || act == "four_rounds" || act == "race" || act == "meddle" ||
         act == "reduce_then_compute" || act == "reduce_and_compute" || act == "deadlock" ||
         act == "look_before_waiting" || act == "poll" || act == "pass_backward";
}

void run_toy(const Toy& c, RankContext& here) {
  here.enter(1, "acting");
  here.record("there", std::vector<int64_t>{here.rank()});
  if (c.act == "train") return train_a_step(here);
  if (c.act == "find_in_store") return find_in_store(here);
  if (c.act == "train_a_convolution") return train_a_convolution(here);
  // LibTorch divides operations of more than 32,768 elements among threads.
  if (c.act == "share_a_backward") return pass_backward_on_four_threads(here, 1 << 17);
  if (c.act == "share_no_backward") return pass_backward_on_four_threads(here, 1 << 15);
  if (c.act == "reduce_and_record") return all_reduce(here, 3);
  if (c.act == "broadcast") {
    std::vector<at::Tensor> tensors{torch::full({4}, here.rank())};
    here.group()->broadcast(tensors, {})->wait();
    return;
  }
  if (c.act.starts_with("part_in_"))
    return part_in(c.act.substr(std::string("part_in_").size()), here, here.rank() == c.rank);
  if (c.act == "part_ways") return all_reduce(here, here.rank() == c.rank ? 3 : 2);
  if (c.act == "reduce_in_halves") return all_reduce_in_halves(here);
  if (c.act == "split_off_groups") return split_off_groups(here);
  if (c.act == "allreduce") here.group();  // all meet, one continues
  if (here.rank() == c.rank || everybody_acts(c.act)) act_out(c.act, here);
}

Findings no_findings(const Toy&, const History&) {
  return {};
}

}  // namespace

Scenario toy_scenario() {
  return scenario(Spec<Toy>{.name = "toy.acts",
                            .claim = "A toy does what its act says",
                            .cases = rc::gen::just(Toy{}),
                            .program = &run_toy,
                            .checks = {&no_findings}});
}

namespace {

class LaunchedHere final : public Tier {
 public:
  LaunchedHere(const Scenario& scenario, const ForkedOptions& options, int ranks) {
    const Subjects subjects{Subject{.name = "bare"}};
    LaunchedParts parts{
        .server = launched_server({}, {scenario}, subjects, options),
        .own = handshake_of(0, "127.0.0.1", "token-" + std::to_string(getpid()), {}),
        .grace = options.grace};
    for (int rank = 1; rank < ranks; ++rank) {
      others_.push_back(launched_server({}, {scenario}, subjects, options));
      parts.members.push_back(
          {handshake_of(rank, "127.0.0.1", "", {}), Descriptor(dup(others_.back()->descriptor()))});
    }
    tier_ = std::make_unique<LaunchedTier>(std::move(parts));
  }
  ~LaunchedHere() override { others_.clear(); }  // as members that leave

  History run(const Scenario& scenario, const Case& c, const Setting& setting,
              const CaseRunOptions& options) override {
    return tier_->run(scenario, c, setting, options);
  }
  CaseStacks keep_output(const std::filesystem::path& folder, const History& history) override {
    return tier_->keep_output(folder, history);
  }
  void stop() override { tier_->stop(); }

 private:
  std::unique_ptr<LaunchedTier> tier_;
  std::vector<std::unique_ptr<Zygote>> others_;
};

}  // namespace

std::vector<std::unique_ptr<Tier>> ForkedTest::launched_here(const ForkedOptions& options,
                                                             int lanes) const {
  constexpr int kRanks = 5;
  std::vector<std::unique_ptr<Tier>> all;
  for (int lane = 0; lane < lanes; ++lane)
    all.push_back(std::make_unique<LaunchedHere>(scenario_, options, kRanks));
  return all;
}

std::map<std::string, std::string> ForkedTest::kept_output(Tier& tier, const History& history) {
  const auto folder =
      std::filesystem::temp_directory_path() / ("cold_test." + std::to_string(getpid()));
  tier.keep_output(folder / "logs", history);
  std::map<std::string, std::string> files;
  for (const auto& name : testing_support::entries(folder / "logs")) {
    std::ostringstream text;
    text << std::ifstream(folder / "logs" / name).rdbuf();
    files[name] = text.str();
  }
  std::filesystem::remove_all(folder);
  return files;
}

}  // namespace lockstep
