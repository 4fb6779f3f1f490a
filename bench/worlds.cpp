// Measures worlds per second: the cold tier against a bare loop that does only the necessary work,
// and the warm tier against the cold one, in one run.
//
//   bench_worlds [ROUNDS [CASES]]
//   bench_worlds --tier TIER --cases CASES [--subject SUBJECT]
//
// Both run the same case: a small network, one averaged step over Gloo. The bare loop forks the
// ranks, connects them through a store in shared memory, and waits; the tier also journals, taps,
// captures output, keeps deadlines and records a history. Rounds alternate between the two, since
// the machine's load changes by the second: only the ratio means anything.
//
// With --tier one tier runs the step as a user would write it, under the subject's
// DistributedDataParallel (ours), and prints its speed as a line of JSON: one turn of
// bench/beside_pytorch.py.
#include "bench/rounds.h"
#include "harness/base/json.h"
#include "harness/base/text.h"
#include "harness/process/child_group.h"
#include "harness/process/shared_memory.h"
#include "harness/process/zygote.h"
#include "harness/rank/rank_context.h"
#include "harness/worlds/ambient.h"
#include "harness/worlds/gloo/gloo.h"
#include "harness/worlds/gloo/shared_memory_store.h"
#include "harness/worlds/subject.h"
#include "harness/worlds/tiers.h"
#include "scenarios/subjects/subjects.h"

#include <torch/torch.h>

#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <sys/wait.h>
#include <unistd.h>

namespace lockstep {
namespace {

using Clock = std::chrono::steady_clock;

struct SmallStep {
  WorldSpec world;
  int seed = 0;
  static constexpr auto fields() {
    return std::tuple{field("world", &SmallStep::world), field("seed", &SmallStep::seed)};
  }
};

torch::nn::Sequential small_network() {
  return torch::nn::Sequential(torch::nn::Linear(8, 16), torch::nn::ReLU(),
                               torch::nn::Linear(16, 4));
}

at::Tensor input_of(int seed, int rank) {
  return torch::full({2, 8}, static_cast<double>(seed + rank));
}

std::vector<at::Tensor> averaged_gradients(c10d::ProcessGroup& group, int seed, int rank,
                                           int size) {
  auto model = small_network();
  model->forward(input_of(seed, rank)).sum().backward();
  std::vector<at::Tensor> parts;
  for (const auto& parameter : model->parameters()) parts.push_back(parameter.grad().flatten());
  std::vector<at::Tensor> flat{torch::cat(parts).div_(size)};
  group.allreduce(flat)->wait();
  return flat;
}

void program(const SmallStep& c, RankContext& here) {
  here.enter(0, "after_backward");
  here.record("gradients",
              averaged_gradients(*here.group(), c.seed, here.rank(), here.size()).front());
}

Findings observed_by_all(const SmallStep&, const History& history) {
  history.row({0, "after_backward"}, "gradients");
  return {};
}

class SmallModel : public Model {
 public:
  SmallModel() : network_(register_module("network", small_network())) {}
  at::Tensor forward(const at::Tensor& input) override { return network_->forward(input); }

 private:
  torch::nn::Sequential network_;
};

void wrapped_program(const SmallStep& c, RankContext& here) {
  const auto model = std::make_shared<SmallModel>();
  const auto replica = wrap(here, model, {});
  replica->backward(replica->forward(input_of(c.seed, here.rank())).sum());
  here.enter(0, "after_backward");
  std::vector<at::Tensor> parts;
  for (const auto& parameter : model->parameters()) parts.push_back(parameter.grad().flatten());
  here.record("gradients", torch::cat(parts));
}

Scenario small_step(const char* name, void (*step)(const SmallStep&, RankContext&)) {
  return scenario(Spec<SmallStep>{.name = name,
                                  .claim = "The averaged step is observed by every rank",
                                  .cases = rc::gen::just(SmallStep{}),
                                  .program = step,
                                  .checks = {&observed_by_all}});
}

int bare_rank(std::span<std::byte> memory, int rank, int size) {
  const std::chrono::seconds timeout(60);
  const auto store = c10::make_intrusive<SharedMemoryStore>(memory, timeout);
  const auto group = c10::make_intrusive<c10d::ProcessGroup>(store, rank, size);
  const auto type = c10d::ProcessGroup::BackendType::GLOO;
  std::vector<int> ranks(static_cast<size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  group->setBackend(c10::DeviceType::CPU, type, gloo_backend(store, rank, ranks, timeout));
  group->setDefaultBackend(type);
  averaged_gradients(*group, 0, rank, size);
  _exit(0);
}

// "world cases" -> seconds.
std::string bare_loop(const std::string& request) {
  int size = 0, cases = 0;
  std::sscanf(request.c_str(), "%d %d", &size, &cases);
  const SharedMemory memory(size_t{16} << 20);
  const auto start = Clock::now();
  for (int i = 0; i < cases; ++i) {
    SharedMemoryStore::reset(memory.bytes());
    for (int rank = 0; rank < size; ++rank)
      if (fork() == 0) bare_rank(memory.bytes(), rank, size);
    while (wait(nullptr) > 0) {
    }
  }
  return std::to_string(std::chrono::duration<double>(Clock::now() - start).count());
}

void compare(Zygote& bare, Tier& tier, const Scenario& scenario, int size, int rounds, int cases) {
  std::vector<double> bare_rates, cold_rates, warm_rates, cold_ratios, warm_ratios;
  const std::string request = std::to_string(size) + " " + std::to_string(cases);
  for (int round = 0; round < rounds; ++round) {
    bare_rates.push_back(cases / std::stod(bare.request(request, std::chrono::minutes(5))));
    cold_rates.push_back(cases / bench::seconds_for(tier, {.tier = "cold"}, scenario, size, cases));
    bench::seconds_for(tier, {.tier = "warm"}, scenario, size, 1);  // makes the world
    warm_rates.push_back(cases / bench::seconds_for(tier, {.tier = "warm"}, scenario, size, cases));
    cold_ratios.push_back(cold_rates.back() / bare_rates.back());
    warm_ratios.push_back(warm_rates.back() / cold_rates.back());
  }
  std::printf(
      "world %d   bare loop %6.1f cases/s   cold %6.1f cases/s (%.2f x bare)   warm %7.1f cases/s "
      "(%.1f x cold)\n",
      size, bench::median(bare_rates), bench::median(cold_rates), bench::median(cold_ratios),
      bench::median(warm_rates), bench::median(warm_ratios));
}

void compare_all(int rounds, int cases) {
  const auto scenario = small_step("bench.small_step", &program);
  const auto lanes = forked_lanes({}, {scenario}, Subjects{Subject{.name = "lockstep"}}, 1);
  Zygote bare({}, {.prepare = [] { warm_up_for_forks(); },
                   .serve = [](const std::string& request, int) { return bare_loop(request); }});
  std::printf(
      "medians of %d alternating rounds of %d cases, one lane; ratios are medians of the rounds' "
      "ratios\n",
      rounds, cases);
  for (const int size : {2, 3}) compare(bare, *lanes.front(), scenario, size, rounds, cases);
}

// One-time setup for many cases (loading LibTorch, a warm world, a host) is done before timing
// starts.
void run_one_tier(const Subjects& subjects, const std::string& subject, const std::string& tier,
                  int cases) {
  const auto scenario = small_step("bench.wrapped_step", &wrapped_program);
  const auto lanes = forked_lanes({}, {scenario}, subjects, 1);
  const Setting setting{
      .subject = subject, .tier = tier, .backend = tier == "sim" ? "memory" : "gloo"};
  bench::seconds_for(*lanes.front(), setting, scenario, 2, 1);
  const double seconds = bench::seconds_for(*lanes.front(), setting, scenario, 2, cases);
  const Json line{{"subject", subject},
                  {"tier", tier},
                  {"world", 2},
                  {"cases", cases},
                  {"cases_per_second", cases / seconds},
                  {"libtorch", TORCH_VERSION}};
  std::puts(line.dump().c_str());
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  using namespace lockstep;
  if (argc < 2 || std::string_view(argv[1]) != "--tier") {
    const auto [rounds, cases] = bench::rounds_and_cases(argc, argv, "bench_worlds", 9, 40);
    compare_all(rounds, cases);
    return 0;
  }
  const std::string tier = argc > 2 ? argv[2] : "";
  const bool has_cases = argc >= 5 && std::string_view(argv[3]) == "--cases";
  const auto cases = has_cases ? parsed_int(argv[4]) : std::nullopt;
  const bool has_subject = argc == 7 && std::string_view(argv[5]) == "--subject";
  const std::string subject = has_subject ? argv[6] : "lockstep";
  const auto subjects = built_in_subjects();
  if ((tier != "cold" && tier != "warm" && tier != "sim") || !cases || *cases < 1 ||
      *cases > 100'000 || (argc != 5 && !has_subject) || !subjects.contains(subject)) {
    std::fputs(
        "usage: bench_worlds --tier cold|warm|sim --cases CASES [--subject SUBJECT]   (at most "
        "100,000)\n",
        stderr);
    return 2;
  }
  if (const auto reason = subjects.why_not(subject); !reason.empty()) {
    std::fprintf(stderr, "bench_worlds: subject %s: %s\n", subject.c_str(), reason.c_str());
    return 2;
  }
  subjects.load(subject);
  run_one_tier(subjects, subject, tier, static_cast<int>(*cases));
}
