// Measures the cost of synchronising: SyncBatchNorm against BatchNorm2d on the same local batch,
// and against a simple version made of torch operations and two all-reduces.
//
//   bench_sync_batch_norm [ROUNDS]
//
// Worlds of two and four forked ranks on Gloo over loopback, one thread per rank. A step is forward
// and backward of one layer in training, from a given upstream gradient to the input's. All
// variants take turns in every round, every other round in reverse order, and a ratio is the median
// of rank 0's ratios by round. Below 1 ours is faster. docs/semantics.md 3 says what a step sends.
#include "ddp/sync_batch_norm.h"

#include "bench/rounds.h"
#include "ddp/init.h"

#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

namespace lockstep {
namespace {

using Clock = std::chrono::steady_clock;
using Group = c10::intrusive_ptr<c10d::ProcessGroup>;
using Shape = std::vector<std::int64_t>;
using Layer = std::function<at::Tensor(const at::Tensor&)>;

const std::vector<Shape> kShapes{
    {2, 8}, {32, 64}, {8, 64, 8, 8}, {32, 64, 28, 28}, {32, 256, 28, 28}};

// The sum over the ranks, in forward and in backward.
class SummedOverRanks : public torch::autograd::Function<SummedOverRanks> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& values,
                            const Group& group) {
    context->saved_data["group"] = c10::IValue::make_capsule(group);
    return summed(values, *group);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const auto group = c10::static_intrusive_pointer_cast<c10d::ProcessGroup>(
        context->saved_data["group"].toCapsule());
    return {summed(gradients[0], *group), {}};
  }

 private:
  static at::Tensor summed(const at::Tensor& values, c10d::ProcessGroup& group) {
    std::vector<at::Tensor> tensors{values.clone()};
    group.allreduce(tensors)->wait();
    return tensors[0];
  }
};

// Averages and variances from sums and sums of squares; ranks must have batches of equal size.
Layer straightforward(std::int64_t channels, const Group& group) {
  const at::Tensor weight = torch::ones({channels}, at::requires_grad());
  const at::Tensor bias = torch::zeros({channels}, at::requires_grad());
  const at::Tensor running_mean = torch::zeros({channels}), running_var = torch::ones({channels});
  return [=](const at::Tensor& input) {
    Shape axes{0}, beside(static_cast<std::size_t>(input.dim()), 1);
    for (std::int64_t axis = 2; axis < input.dim(); ++axis) axes.push_back(axis);
    beside[1] = channels;
    const double count = static_cast<double>(input.numel() / channels * group->getSize());
    const at::Tensor sums =
        SummedOverRanks::apply(at::stack({input.sum(axes), input.square().sum(axes)}), group);
    const at::Tensor average = sums[0] / count;
    const at::Tensor variance = sums[1] / count - average.square();
    {
      const torch::NoGradGuard no_grad;
      running_mean.mul_(0.9).add_(average, 0.1);
      running_var.mul_(0.9).add_(variance, 0.1 * count / (count - 1));
    }
    return (input - average.view(beside)) * (variance + 1e-5).rsqrt().view(beside) *
               weight.view(beside) +
           bias.view(beside);
  };
}

std::map<std::string, Layer> layers(std::int64_t channels, const Group& group) {
  const auto local = std::make_shared<torch::nn::BatchNorm2dImpl>(channels);
  const auto ours = std::make_shared<SyncBatchNormImpl>(
      SyncBatchNormOptions{.num_features = channels, .process_group = group});
  return {{"local",
           [local](const at::Tensor& input) {
             return local->forward(input.dim() == 4 ? input : input.view({input.size(0), -1, 1, 1}))
                 .view(input.sizes());
           }},
          {"ours", [ours](const at::Tensor& input) { return ours->forward(input); }},
          {"straightforward", straightforward(channels, group)}};
}

// The number of collectives of one step, as its group counts them.
std::uint64_t collectives_of_step(const Layer& layer, const Shape& shape,
                                  c10d::ProcessGroup& group) {
  const at::Tensor input = torch::randn(shape).requires_grad_();
  const auto& backend = group.getBackend(c10::DeviceType::CPU);
  const std::uint64_t before = backend->getSequenceNumberForGroup();
  layer(input).sum().backward();
  return backend->getSequenceNumberForGroup() - before;
}

double seconds_of_step(const Layer& layer, const Shape& shape, int steps, const Group& group) {
  const at::Tensor input = torch::randn(shape).requires_grad_(), upstream = torch::randn(shape);
  std::vector<double> seconds;
  std::vector<at::Tensor> together{torch::zeros(1)};
  group->allreduce(together)->wait();
  for (int step = -2; step < steps; ++step) {
    input.mutable_grad() = at::Tensor();
    const auto start = Clock::now();
    layer(input).backward(upstream);
    if (step >= 0) seconds.push_back(std::chrono::duration<double>(Clock::now() - start).count());
  }
  return bench::median(std::move(seconds));
}

void measure(const Shape& shape, int rounds, const Group& group) {
  const int steps = shape.size() == 4 && shape[2] == 28 ? 10 : 100;
  const auto all = layers(shape[1], group);
  std::map<std::string, std::vector<double>> seconds;
  for (int round = 0; round < rounds; ++round) {
    std::vector<std::string> turns{"local", "ours", "straightforward"};
    if (round % 2 == 1) std::reverse(turns.begin(), turns.end());
    for (const std::string& way : turns)
      seconds[way].push_back(seconds_of_step(all.at(way), shape, steps, group));
  }
  const auto collectives = collectives_of_step(all.at("ours"), shape, *group);
  if (group->getRank() != 0) return;
  const auto ratio_to = [&](const std::string& other) {
    std::vector<double> ratios;
    for (std::size_t i = 0; i < seconds["ours"].size(); ++i)
      ratios.push_back(seconds["ours"][i] / seconds[other][i]);
    return bench::median(std::move(ratios));
  };
  std::printf(
      "  %-20s ours %8.3f ms   %6.2f x BatchNorm2d (%.3f ms)   %.2f x straightforward (%.3f ms)   "
      "%d collectives\n",
      c10::str(at::IntArrayRef(shape)).c_str(), bench::median(seconds["ours"]) * 1e3,
      ratio_to("local"), bench::median(seconds["local"]) * 1e3, ratio_to("straightforward"),
      bench::median(seconds["straightforward"]) * 1e3, static_cast<int>(collectives));
  std::fflush(stdout);
}

void run_rank(int rank, int world_size, const std::string& file, int rounds) {
  at::set_num_threads(1);
  const auto group =
      init_process_group({.store = c10::make_intrusive<c10d::FileStore>(file, world_size),
                          .rank = rank,
                          .world_size = world_size});
  for (const Shape& shape : kShapes) measure(shape, rounds, group);
}

// Returns whether all ranks succeeded.
bool run_world(int world_size, int rounds) {
  char folder[] = "/tmp/lockstep-bench-XXXXXX";
  if (mkdtemp(folder) == nullptr) return false;
  std::printf("world %d\n", world_size);
  std::fflush(stdout);
  for (int rank = 0; rank < world_size; ++rank) {
    if (fork() != 0) continue;
    try {
      run_rank(rank, world_size, std::string(folder) + "/store", rounds);
      _exit(0);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
      _exit(1);
    }
  }
  bool all_well = true;
  for (int status = 0; wait(&status) > 0;) all_well = all_well && status == 0;
  std::filesystem::remove_all(folder);
  return all_well;
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  const int rounds =
      lockstep::bench::rounds_and_cases(argc, argv, "bench_sync_batch_norm", 9, 1).first;
  std::printf(
      "medians of %d alternating rounds, forward and backward, Gloo on loopback, one thread a "
      "rank; %ld cores\n",
      rounds, sysconf(_SC_NPROCESSORS_ONLN));
  return lockstep::run_world(2, rounds) && lockstep::run_world(4, rounds) ? 0 : 1;
}
