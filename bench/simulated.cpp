// Measures simulated worlds per second: the sim tier against a bare loop that does only the
// necessary work, in one run; and large worlds.
//
//   bench_simulated [ROUNDS [CASES]]
//
// Both run the same case: a small network and three steps of c10d::Reducer. The bare loop starts
// one thread per rank, hands a baton from one to the next, and adds the tensors; the tier also
// journals, taps, captures output, swaps ambient state, checks for leaks, keeps deadlines, records
// a history and judges it. Both stay on one core. Rounds alternate between the two, since the
// machine's load changes by the second: only the ratio means anything.
#include "bench/rounds.h"
#include "harness/process/zygote.h"
#include "harness/rank/rank_context.h"
#include "harness/worlds/ambient.h"
#include "harness/worlds/subject.h"
#include "harness/worlds/tiers.h"

#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>
#include <torch/torch.h>

#include <algorithm>
#include <cstdio>
#include <random>
#include <sched.h>
#include <semaphore>
#include <thread>

namespace lockstep {
namespace {

using Clock = std::chrono::steady_clock;
using WorkPtr = c10::intrusive_ptr<c10d::Work>;

struct ThreeSteps {
  WorldSpec world;
  int seed = 0;
  static constexpr auto fields() {
    return std::tuple{field("world", &ThreeSteps::world), field("seed", &ThreeSteps::seed)};
  }
};

at::Tensor trained_gradients(const c10::intrusive_ptr<c10d::ProcessGroup>& group, int seed,
                             int rank) {
  auto generator = at::detail::createCPUGenerator(static_cast<uint64_t>(seed));
  torch::nn::Sequential model(torch::nn::Linear(8, 16), torch::nn::ReLU(),
                              torch::nn::Linear(16, 4));
  const auto parameters = model->parameters();
  {
    const torch::NoGradGuard no_grad;
    for (auto parameter : parameters) parameter.uniform_(-1, 1, generator);
  }
  std::unordered_map<size_t, std::string> names;
  for (const auto& parameter : model->named_parameters()) names[names.size()] = parameter.key();
  const auto reducer = std::make_shared<c10d::Reducer>(
      parameters, std::vector<std::vector<size_t>>{{3, 2}, {1, 0}}, group,
      std::vector<bool>(parameters.size(), false), int64_t{25} << 20, false, true, names,
      int64_t{1} << 20, false, false, std::vector<int64_t>{});
  const auto input = torch::full({2, 8}, 1.0 + rank);
  for (int step = 0; step < 3; ++step) {
    if (step > 0) model->zero_grad(false);
    reducer->prepare_for_forward();
    reducer->rebuild_buckets();
    const auto loss = model->forward(input).sum();
    reducer->prepare_for_backward({});
    loss.backward();
  }
  std::vector<at::Tensor> gradients;
  for (const auto& parameter : parameters) gradients.push_back(parameter.grad().flatten());
  return torch::cat(gradients);
}

void program(const ThreeSteps& c, RankContext& here) {
  const auto group = here.group();
  here.enter(0, "after_backward");
  here.record("gradients", trained_gradients(group, c.seed, here.rank()));
}

Findings observed_by_all(const ThreeSteps&, const History& history) {
  history.row({0, "after_backward"}, "gradients");
  return {};
}

Scenario three_steps() {
  return scenario(Spec<ThreeSteps>{.name = "bench.three_steps",
                                   .claim = "Three steps are observed by every rank",
                                   .cases = rc::gen::just(ThreeSteps{}),
                                   .program = &program,
                                   .checks = {&observed_by_all}});
}

// The bare loop's world: the rank that holds the baton runs, and passes it on when it waits.
class Baton {
 public:
  explicit Baton(int size) : tensors_(static_cast<size_t>(size)) {
    for (int rank = 0; rank < size; ++rank) {
      turns_.push_back(std::make_unique<std::binary_semaphore>(0));
      ready_.push_back(rank);
    }
  }
  void start(int rank) { turns_[static_cast<size_t>(rank)]->acquire(); }
  void pass_on() {
    const size_t next = random_() % ready_.size();
    const int rank = ready_[next];
    ready_[next] = ready_.back();
    ready_.pop_back();
    turns_[static_cast<size_t>(rank)]->release();
  }
  void meet(int rank, const at::Tensor& tensor, int root) {
    tensors_[static_cast<size_t>(rank)] = tensor;
    if (++arrived_ == static_cast<int>(tensors_.size())) {
      arrived_ = 0;
      const torch::NoGradGuard no_grad;
      auto result = root < 0 ? tensors_[0].clone() : tensors_[static_cast<size_t>(root)];
      for (size_t i = 1; root < 0 && i < tensors_.size(); ++i) result.add_(tensors_[i]);
      for (size_t i = 0; i < tensors_.size(); ++i) {
        if (static_cast<int>(i) != root) tensors_[i].copy_(result);
        ready_.push_back(static_cast<int>(i));
      }
    }
    pass_on();
    start(rank);
  }
  void finish() {
    if (++finished_ == static_cast<int>(tensors_.size()))
      over_.release();
    else
      pass_on();
  }
  void wait() { over_.acquire(); }

 private:
  std::vector<std::unique_ptr<std::binary_semaphore>> turns_;
  std::vector<int> ready_;
  std::vector<at::Tensor> tensors_;
  std::minstd_rand random_;
  std::binary_semaphore over_{0};
  int arrived_ = 0, finished_ = 0;
};

class DoneWork final : public c10d::Work {
 public:
  explicit DoneWork(const std::vector<at::Tensor>& tensors) {
    future_->markCompleted(c10::IValue(tensors));
  }
  bool isCompleted() override { return true; }
  bool wait(std::chrono::milliseconds) override { return true; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future_; }

 private:
  c10::intrusive_ptr<c10::ivalue::Future> future_ =
      c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
};

class BareBackend final : public c10d::Backend {
 public:
  BareBackend(Baton& baton, int rank, int size) : Backend(rank, size), baton_(baton) {}
  const std::string getBackendName() const override { return "bare"; }
  WorkPtr allreduce(std::vector<at::Tensor>& tensors, const c10d::AllreduceOptions&) override {
    baton_.meet(rank_, tensors[0], -1);
    return c10::make_intrusive<DoneWork>(tensors);
  }
  WorkPtr broadcast(std::vector<at::Tensor>& tensors,
                    const c10d::BroadcastOptions& options) override {
    baton_.meet(rank_, tensors[0], static_cast<int>(options.rootRank));
    return c10::make_intrusive<DoneWork>(tensors);
  }

 private:
  Baton& baton_;
};

void bare_rank(Baton& baton, int rank, int size) {
  const auto group =
      c10::make_intrusive<c10d::ProcessGroup>(c10::make_intrusive<c10d::HashStore>(), rank, size);
  const auto type = c10d::ProcessGroup::BackendType::CUSTOM;
  group->setBackend(c10::DeviceType::CPU, type,
                    c10::make_intrusive<BareBackend>(baton, rank, size));
  group->setDefaultBackend(type);
  baton.start(rank);
  trained_gradients(group, 0, rank);
  baton.finish();
}

// "world cases core" -> seconds.
std::string bare_loop(const std::string& request) {
  int size = 0, cases = 0, core = 0;
  std::sscanf(request.c_str(), "%d %d %d", &size, &cases, &core);
  cpu_set_t cores;
  CPU_ZERO(&cores);
  CPU_SET(static_cast<size_t>(core), &cores);
  sched_setaffinity(0, sizeof(cores), &cores);
  const auto start = Clock::now();
  for (int i = 0; i < cases; ++i) {
    Baton baton(size);
    std::vector<std::thread> ranks;
    for (int rank = 0; rank < size; ++rank)
      ranks.emplace_back([&, rank] { bare_rank(baton, rank, size); });
    baton.pass_on();
    baton.wait();
    for (auto& rank : ranks) rank.join();
  }
  return std::to_string(std::chrono::duration<double>(Clock::now() - start).count());
}

void compare(Zygote& bare, Tier& tier, const Scenario& scenario, int core, int size, int rounds,
             int cases) {
  std::vector<double> bare_rates, rates, ratios;
  const std::string request =
      std::to_string(size) + " " + std::to_string(cases) + " " + std::to_string(core);
  const Setting setting{.tier = "sim", .backend = "memory"};
  bench::seconds_for(tier, setting, scenario, size, 1);  // makes the host
  for (int round = 0; round < rounds; ++round) {
    bare_rates.push_back(cases / std::stod(bare.request(request, std::chrono::minutes(5))));
    rates.push_back(cases / bench::seconds_for(tier, setting, scenario, size, cases));
    ratios.push_back(rates.back() / bare_rates.back());
  }
  std::printf("world %4d   bare loop %7.1f cases/s   sim %7.1f cases/s (%.2f x bare)\n", size,
              bench::median(bare_rates), bench::median(rates), bench::median(ratios));
}

int first_core() {
  cpu_set_t allowed;
  sched_getaffinity(0, sizeof(allowed), &allowed);
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(static_cast<size_t>(core), &allowed)) return core;
  return 0;
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  using namespace lockstep;
  const auto [rounds, cases] = bench::rounds_and_cases(argc, argv, "bench_simulated", 9, 200);
  const auto scenario = three_steps();
  const auto lanes = forked_lanes({}, {scenario}, Subjects{Subject{.name = "lockstep"}}, 1,
                                  {.core = first_core()});
  Zygote bare({}, {.prepare = [] { warm_up_for_forks(); },
                   .serve = [](const std::string& request, int) { return bare_loop(request); }});
  std::printf(
      "three steps of c10d::Reducer; medians of %d alternating rounds of %d cases (large worlds: a "
      "third of the rounds, %d ranks a round), one core; ratios are medians of the rounds' "
      "ratios\n",
      rounds, cases, std::max(cases, 1024));
  for (const int size : {2, 3, 4})
    compare(bare, *lanes.front(), scenario, first_core(), size, rounds, cases);
  for (const int size : {64, 1024})
    compare(bare, *lanes.front(), scenario, first_core(), size, std::max(1, rounds / 3),
            std::max(1, cases / size));
}
