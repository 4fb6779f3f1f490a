// Measures the time that lockstep::Recorder adds to a step: two trainings of one model in one
// process take turns, one of which is recorded.
//
//   bench_recorder FOLDER image|small STEPS
//
// prints a line of JSON: the median milliseconds of processor time of a step without and with the
// recorder. FOLDER, which must not exist yet, holds the history afterwards.
#include "recorder/cpp/lockstep/recorder.h"

#include "bench/rounds.h"
#include "ddp/distributed_data_parallel.h"
#include "ddp/init.h"
#include "harness/base/json.h"

#include <torch/torch.h>

#include <cstdlib>
#include <iostream>
#include <time.h>

namespace lockstep {
namespace {

constexpr int kWarmUp = 3;
constexpr int64_t kBatch = 32;

// 0.6 million parameters and images of 32 x 32, as in the tutorials of CIFAR-10; or a few numbers.
torch::nn::Sequential model_named(const std::string& name) {
  using namespace torch::nn;
  if (name == "small") return Sequential(Flatten(), Linear(3, 2));
  const auto convolution = [](int64_t from, int64_t to) {
    return Conv2d(Conv2dOptions(from, to, 3).padding(1));
  };
  return Sequential(convolution(3, 32), ReLU(), MaxPool2d(2), convolution(32, 64), ReLU(),
                    MaxPool2d(2), Flatten(), Linear(64 * 8 * 8, 128), ReLU(), Linear(128, 10));
}

double processor_ms() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return 1e3 * static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e6;
}

class Training {
 public:
  Training(const c10::intrusive_ptr<c10d::ProcessGroup>& group, const std::string& folder,
           const std::string& name)
      : recorder_(group, folder),
        ddp_(model_named(name).ptr(), {.process_group = recorder_.group()}),
        optimizer_(ddp_->parameters(), torch::optim::SGDOptions(0.01).momentum(0.9)),
        input_(name == "small" ? torch::randn({1, 3}) : torch::randn({kBatch, 3, 32, 32})) {
    recorder_.watch(ddp_);
  }

  double step() {
    const double before = processor_ms();
    optimizer_.zero_grad();
    ddp_.forward(input_).square().mean().backward();
    recorder_.step(optimizer_);
    return processor_ms() - before;
  }

 private:
  Recorder recorder_;
  DistributedDataParallel<torch::nn::SequentialImpl> ddp_;
  torch::optim::SGD optimizer_;
  const at::Tensor input_;
};

int compare(const std::string& folder, const std::string& name, int steps) {
  ::unsetenv("LOCKSTEP_RECORD");
  at::set_num_threads(1);
  const auto group = init_process_group();
  Training without(group, "", name), with(group, folder, name);
  std::vector<double> times[2];
  for (int step = 0; step < kWarmUp + steps; ++step) {
    const double first = without.step(), second = with.step();
    if (step < kWarmUp) continue;
    times[0].push_back(first);
    times[1].push_back(second);
  }
  std::cout << Json{{"without", bench::median(times[0])}, {"with", bench::median(times[1])}}.dump()
            << "\n";
  return 0;
}

}  // namespace
}  // namespace lockstep

int main(int count, char** words) {
  if (count != 4 || std::atoi(words[3]) < 1) {
    std::cerr << "usage: " << words[0] << " FOLDER image|small STEPS\n";
    return 2;
  }
  return lockstep::compare(words[1], words[2], std::atoi(words[3]));
}
