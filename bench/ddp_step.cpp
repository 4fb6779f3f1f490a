// One rank of a world whose training steps bench/ddp_step.py times: it reads turns from its input,
// runs them, and answers each with a line of JSON. bench/ddp_step_in_pytorch.py runs the same turns
// in Python.
//
//   bench_ddp_step RANK FILE cured|as_it_is cpu|cuda
//
// On the CPU a world of two, over Gloo; on CUDA a world of one, over NCCL. The rendezvous of the
// ranks is in FILE, which must not exist yet. A turn is a line "WAY MODEL STEPS", such as
// "lockstep_view 25m 5" or "hook:fp16_compress 25m 5"; "none" runs without data parallelism.
// `cured`: Note [Gloo's stall].
#include "bench/rounds.h"
#include "ddp/backend/nccl_library.h"
#include "ddp/init.h"
#include "harness/base/json.h"
#include "harness/base/text.h"
#include "harness/worlds/gloo/gloo.h"
#include "harness/worlds/subject.h"
#include "scenarios/subjects/subjects.h"

#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>
#include <time.h>

namespace lockstep {
namespace {

using Clock = std::chrono::steady_clock;

int world_size_on(const at::Device& device) {
  return device.is_cuda() ? 1 : 2;
}
constexpr int64_t kBatch = 32;

class Perceptron : public Model {
 public:
  Perceptron(int64_t width, int depth) {
    for (int i = 0; i < depth; ++i) {
      layers_->push_back(torch::nn::Linear(width, width));
      if (i + 1 < depth) layers_->push_back(torch::nn::ReLU());
    }
    register_module("layers", layers_);
  }
  at::Tensor forward(const at::Tensor& input) override { return layers_->forward(input); }

 private:
  torch::nn::Sequential layers_;
};

// A thousand tensors of sixteen numbers, whose gradients arrive one by one.
class ManySmall : public Model {
 public:
  ManySmall() {
    for (int i = 0; i < 1000; ++i)
      shifts_.push_back(register_parameter("shift" + std::to_string(i), torch::zeros(16)));
  }
  at::Tensor forward(const at::Tensor& input) override {
    at::Tensor sum = input;
    for (const at::Tensor& shift : shifts_) sum = sum + shift;
    return sum;
  }

 private:
  std::vector<at::Tensor> shifts_;
};

struct Kind {
  int64_t width = 0;
  std::function<std::shared_ptr<Model>()> make;
};

const std::map<std::string, Kind>& kinds() {
  static const std::map<std::string, Kind> all{
      {"8k", {64, [] { return std::make_shared<Perceptron>(64, 2); }}},
      {"6m", {1024, [] { return std::make_shared<Perceptron>(1024, 6); }}},
      {"25m", {2048, [] { return std::make_shared<Perceptron>(2048, 6); }}},
      {"small", {16, [] { return std::make_shared<ManySmall>(); }}}};
  return all;
}

class Unwrapped : public Replica {
 public:
  explicit Unwrapped(std::shared_ptr<Model> model) : model_(std::move(model)) {}
  at::Tensor forward(const at::Tensor& input) override { return model_->forward(input); }

 private:
  const std::shared_ptr<Model> model_;
};

std::unique_ptr<Replica> wrapped(const std::string& way, const std::shared_ptr<Model>& model,
                                 const Group& group) {
  if (way == "none") return std::make_unique<Unwrapped>(model);
  if (way == "lockstep") return lockstep_subject().wrap(model, group, {});
  if (way == "lockstep_view")
    return lockstep_subject().wrap(model, group, {.gradient_as_bucket_view = true});
  if (way == "lockstep_batched")
    return lockstep_subject().wrap(model, group, {.batched_grad_copy = true});
  if (way.starts_with("hook:"))
    return lockstep_subject().wrap(
        model, group,
        {.hook = HookOptions{.kind = value_of_word<HookKind>(way.substr(5)).value()}});
  if (way == "c10d") return c10d_subject().wrap(model, group, {});
  if (way == "c10d_view")
    return c10d_subject().wrap(model, group, {.gradient_as_bucket_view = true});
  throw std::invalid_argument("no way is called '" + way + "'");
}

// This process's peak resident memory. (ru_maxrss is not: a process inherits its parent's value.)
int64_t peak_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (word != "VmHWM:") continue;
    int64_t kilobytes = 0;
    status >> kilobytes;
    return kilobytes * 1024;
  }
  return 0;
}

// CPU time of all threads of this process.
double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// On CUDA, where kernels run asynchronously: the time of all steps to the last kernel's end,
// divided by their number. On the CPU: the median of the steps.
double seconds_of_a_step(const std::function<void()>& step, int steps, bool on_cuda) {
  std::vector<double> seconds;
  const auto first = Clock::now();
  for (int i = 0; i < steps; ++i) {
    const auto start = Clock::now();
    step();
    seconds.push_back(std::chrono::duration<double>(Clock::now() - start).count());
  }
  if (!on_cuda) return bench::median(std::move(seconds));
  torch::cuda::synchronize();
  return std::chrono::duration<double>(Clock::now() - first).count() / steps;
}

// Ranks begin together, so that each shares the machine with its peer, with and without DDP. CPU
// time is taken over all steps: a worker thread may finish one step's work during the next.
Json run_way(const std::string& way, const std::string& kind_name, int steps, const Group& group,
             const at::Device& device) {
  const Kind& kind = kinds().at(kind_name);
  torch::manual_seed(1);
  const auto model = kind.make();
  model->to(device);
  const auto replica = wrapped(way, model, group);
  const at::Tensor input = torch::ones({kBatch, kind.width}, device);
  const auto step = [&] {
    model->zero_grad();
    replica->forward(input).sum().backward();
  };
  const int warm_up = std::max(3, steps / 10);
  for (int i = 0; i < warm_up; ++i) step();
  std::vector<at::Tensor> together{torch::zeros(1, device)};
  const auto meet = [&] {
    group->allreduce(together)->wait();
    if (device.is_cuda()) torch::cuda::synchronize();
  };
  meet();
  const double processor_at_start = processor_seconds();
  const double wall = seconds_of_a_step(step, steps, device.is_cuda());
  const double processor = processor_seconds() - processor_at_start;
  meet();
  return {{"wall", wall}, {"processor", processor / steps}, {"peak_bytes", peak_bytes()}};
}

void run_turns(int rank, const std::string& file, const at::Device& device) {
  at::set_num_threads(1);
  const int world_size = world_size_on(device);
  const auto group =
      init_process_group({.store = c10::make_intrusive<c10d::FileStore>(file, world_size),
                          .rank = rank,
                          .world_size = world_size,
                          .backend = device.is_cuda() ? "cpu:gloo,cuda:nccl" : "cpu:gloo"});
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string way, kind;
    int steps = 0;
    words >> way >> kind >> steps;
    std::cout << run_way(way, kind, steps, group, device).dump() << std::endl;
  }
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  using namespace lockstep;
  const bool is_whole = argc == 5;
  const auto rank = is_whole ? parsed_int(argv[1]) : std::nullopt;
  const std::string stalls = is_whole ? argv[3] : "", where = is_whole ? argv[4] : "";
  const at::Device device(where == "cuda" ? at::kCUDA : at::kCPU, where == "cuda" ? 0 : -1);
  if (!rank || *rank < 0 || *rank >= world_size_on(device) ||
      (stalls != "cured" && stalls != "as_it_is") || (where != "cpu" && where != "cuda")) {
    std::fputs(
        "usage: bench_ddp_step 0|1 FILE cured|as_it_is cpu|cuda   (bench/ddp_step.py calls it)\n",
        stderr);
    return 2;
  }
  if (device.is_cuda()) {
    if (const auto gpus = usable_gpus(); !gpus.problem.empty()) {
      std::fprintf(stderr, "bench_ddp_step: there is no step on CUDA here: %s\n",
                   gpus.problem.c_str());
      return 1;
    }
  }
  cure_gloo_stalls(stalls == "cured");
  std::cout << Json{{"libtorch", TORCH_VERSION},
                    {"cured", stalls == "cured"},
                    {"nccl", device.is_cuda() ? load_nccl().version : ""}}
                   .dump()
            << std::endl;
  run_turns(static_cast<int>(*rank), argv[2], device);
}
