// One rank of a world over the real ProcessGroupNCCL, with the stand-in for CUDA and NCCL loaded
// before it: a program of its own, whose arguments are what it does, one after another. Its models
// compute nothing on the device: gradients are made on the host and uploaded.
#include "tests/fake_cuda/probe/fake_cuda_probe.h"

#include "ddp/backend/nccl.h"
#include "ddp/distributed_data_parallel.h"
#include "ddp/errors.h"
#include "ddp/init.h"

#include <torch/torch.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <dlfcn.h>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <unistd.h>
#include <vector>

namespace lockstep {
namespace {

constexpr int kParameters = 6;
constexpr std::int64_t kNumbers = 200000;  // of each: with a small cap a bucket of its own

void mark(const std::string& text) {
  using Mark = void (*)(const char*);
  if (const auto told = reinterpret_cast<Mark>(::dlsym(RTLD_DEFAULT, "lockstep_fake_cuda_mark")))
    told(text.c_str());
}

at::Tensor uploaded(double value, at::IntArrayRef shape, c10::Device device) {
  return at::full(shape, value, at::kFloat).to(device, /*non_blocking=*/true);
}

// A parameter, and what its gradient is.
struct Uploaded : torch::autograd::Function<Uploaded> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& /*input*/,
                            const at::Tensor& parameter, double value) {
    context->saved_data["value"] = value;
    context->saved_data["device"] = parameter.device();

    return uploaded(0.0, {1}, parameter.device());
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const c10::Device device = context->saved_data["device"].toDevice();
    const double value = context->saved_data["value"].toDouble();
    return {gradients[0], uploaded(value, {kNumbers}, device), at::Tensor()};
  }
};

struct NetImpl : torch::nn::Module {
  explicit NetImpl(c10::Device device) {
    for (int i = 0; i < kParameters; ++i)
      weights.push_back(
          register_parameter("weight" + std::to_string(i), uploaded(i, {kNumbers}, device)));
  }
  at::Tensor forward(at::Tensor input, double value) {
    for (std::size_t i = 0; i < weights.size(); ++i)
      input = Uploaded::apply(input, weights[i], value * static_cast<double>(i + 1));
    return input;
  }
  std::vector<at::Tensor> weights;
};
TORCH_MODULE(Net);

class Rank {
 public:
  // "init=BACKEND", and the like; with "1:" in front on rank 1 alone.
  void does(std::string what) {
    const auto colon = what.find(':');
    if (colon == 1 && what[0] >= '0' && what[0] <= '9') {
      if (what[0] - '0' != std::atoi(std::getenv("RANK"))) return;
      what = what.substr(2);
    }
    const auto equals = what.find('=');
    const std::string verb = what.substr(0, equals);
    const std::string about = equals == std::string::npos ? "" : what.substr(equals + 1);
    mark("begins " + verb);
    const auto start = std::chrono::steady_clock::now();
    try {
      does_one(verb, about);
      tell(verb, start, said_);
    } catch (const std::exception& error) {
      failed_ = true;
      const bool is_communication = dynamic_cast<const CommunicationError*>(&error) != nullptr;
      tell(verb, start,
           (is_communication ? "CommunicationError: " : "threw: ") + first_line(error));
    }
    said_.clear();
  }

  bool failed() const { return failed_; }

 private:
  void does_one(const std::string& verb, const std::string& about) {
    const std::map<std::string, std::function<void()>> verbs = {
        {"timeout", [&] { timeout_ = std::chrono::milliseconds(std::stoi(about)); }},
        {"crowd", [&] { ranks_per_device_ = std::stoi(about); }},
        {"init", [&] { init(about); }},
        {"sum", [&] { sum(); }},
        {"ddp", [&] { wrap(); }},
        {"steps",
         [&] {
           for (int i = 0; i < std::stoi(about); ++i) step();
         }},
        {"check",
         [&] {
           for (auto& each : instances_) (*each)->check_reduction_finished();
         }},
        {"look", [&] { look(); }},
        {"throw",
         [&] {
           const auto going = std::move(instances_);  // and they are gone as it is thrown
           throw std::runtime_error("this rank has had enough");
         }},
        {"die", [&] { ::kill(::getpid(), SIGKILL); }},
        {"stall", [&] { std::cin.get(); }},  // until the process that started this closes its stdin
        {"leave", [&] { leave(); }},
        {"shut", [&] { group_->getBackend(c10::kCUDA)->shutdown(); }}};
    verbs.at(verb)();
  }

  void init(const std::string& backend) {
    group_ = init_process_group(
        {.backend = backend, .ranks_per_device = ranks_per_device_, .timeout = timeout_});
    const auto bound = group_->getBoundDeviceId();
    said_ = backends_of(*group_) + (bound ? " on " + bound->str() : "");
  }

  c10::Device device() const { return group_->getBoundDeviceId().value(); }

  // 1 + 2 + ... on every rank.
  void sum() {
    std::vector<at::Tensor> tensors = {uploaded(1.0 + group_->getRank(), {1000}, device())};
    group_->allreduce(tensors)->wait();
    said_ = range_of(tensors[0]);
  }

  static std::string range_of(const at::Tensor& tensor) {
    const at::Tensor here = tensor.cpu();
    return std::to_string(here.min().item<double>()) + ".." +
           std::to_string(here.max().item<double>());
  }

  void wrap() {
    Net net(device());
    nets_.push_back(net);
    instances_.push_back(std::make_unique<DistributedDataParallel<NetImpl>>(
        net, DistributedDataParallelOptions{.process_group = group_, .bucket_cap_mb = 1.0}));
    said_ = std::to_string(instances_.size());
  }

  void step() {
    for (auto& instance : instances_) {
      mark("step");
      const at::Tensor input = uploaded(1.0, {1}, device());
      (*instance)->forward(input, 1.0 + group_->getRank()).backward();
      mark("step is over");
    }
  }

  // Reads the result of the last step on the host.
  void look() {
    for (const auto& net : nets_) {
      for (const auto& weight : net->weights)
        said_ += (said_.empty() ? "" : " ") + range_of(weight.grad());
    }
  }

  void leave() {
    instances_.clear();
    nets_.clear();
    group_.reset();
  }

  static void tell(const std::string& verb, std::chrono::steady_clock::time_point start,
                   const std::string& said) {
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(
        std::chrono::steady_clock::now() - start);
    std::cout << verb << " [" << ms.count() << " ms] " << said << std::endl;
  }

  std::chrono::milliseconds timeout_ = std::chrono::seconds(60);
  int ranks_per_device_ = 1;
  c10::intrusive_ptr<c10d::ProcessGroup> group_;
  std::vector<Net> nets_;
  std::vector<std::unique_ptr<DistributedDataParallel<NetImpl>>> instances_;
  std::string said_;
  bool failed_ = false;
};

}  // namespace
}  // namespace lockstep

int fake_cuda_probe(int count, char** arguments) {
  lockstep::load_nccl();
  lockstep::Rank rank;
  for (int i = 1; i < count; ++i) rank.does(arguments[i]);
  return rank.failed() ? 1 : 0;
}
