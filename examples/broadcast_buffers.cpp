// Shows the effect of broadcast_buffers on batch normalisation: rank 0 sees zeros, rank 1 ones, and
// each prints the running mean that it holds after every step, four ways:
//
//   broadcast_buffers --ranks 2 --steps 4
#include "arguments.h"
#include "lockstep/ddp.h"

#include <torch/torch.h>

#include <iomanip>
#include <iostream>
#include <sstream>

namespace {

using Group = c10::intrusive_ptr<c10d::ProcessGroup>;

// An input on which rank r's batch mean is r.
at::Tensor input_of(int rank) {
  return torch::full({4, 1}, static_cast<double>(rank));
}

struct NetImpl : torch::nn::Module {
  NetImpl() { norm = register_module("norm", lockstep::BatchNorm1d(1)); }
  at::Tensor forward(const at::Tensor& input) { return norm(input); }
  lockstep::BatchNorm1d norm{nullptr};
};
TORCH_MODULE(Net);

// A row for each step, a column for each rank.
void print(const Group& group, const std::string& title, const std::vector<at::Tensor>& steps) {
  std::ostringstream text;
  text << title << "\n  step";
  for (int rank = 0; rank < group->getSize(); ++rank) text << "  rank " << rank;
  for (std::size_t step = 0; step < steps.size(); ++step) {
    text << "\n  " << std::setw(4) << step;
    for (int rank = 0; rank < group->getSize(); ++rank) {
      text << std::setw(8) << std::fixed << std::setprecision(4)
           << steps[step][rank].item<double>();
    }
  }
  lockstep::print_rank_0(group, text.str(), "\n");
}

// Steps of a wrapped model. A rank's values are read after its step: with broadcast_buffers the
// next forward begins with rank 0's.
void wrapped(const Group& group, const std::string& title, std::int64_t step_count,
             bool broadcasts_buffers, bool is_synchronised) {
  Net net;
  if (is_synchronised) lockstep::convert_sync_batchnorm(net, group);
  lockstep::DistributedDataParallel ddp(
      net, {.process_group = group, .broadcast_buffers = broadcasts_buffers});
  std::vector<at::Tensor> steps;
  for (std::int64_t step = 0; step < step_count; ++step) {
    ddp.forward(input_of(group->getRank())).sum().backward();
    steps.push_back(torch::cat(lockstep::all_gather(group, net->norm->running_mean)));
  }
  print(group, title, steps);
}

// Imitates DataParallel: one process, in each forward replicas of one module, of which the first
// shares its buffers with the module and the others' are dropped.
void replicated(const Group& group, const std::string& title, std::int64_t step_count) {
  Net net;
  std::vector<at::Tensor> steps;
  for (std::int64_t step = 0; step < step_count; ++step) {
    const auto before = net->norm->running_mean.clone();
    std::vector<at::Tensor> held;
    for (int replica = group->getSize() - 1; replica >= 0; --replica) {
      net->norm->running_mean.copy_(before);
      net->forward(input_of(replica));
      held.insert(held.begin(), net->norm->running_mean.clone());
    }
    steps.push_back(torch::cat(held));
  }
  print(group, title, steps);
}

}  // namespace

int main(int count, char** words) {
  try {
    const Arguments arguments(count, words, {{"--ranks", "2"}, {"--steps", "4"}});
    lockstep::spawn(static_cast<int>(arguments.number("--ranks")), [&](int) {
      const auto group = lockstep::init_process_group();
      const auto steps = arguments.number("--steps");
      wrapped(group, "broadcast_buffers = true: each forward begins with rank 0's", steps, true,
              false);
      wrapped(group, "broadcast_buffers = false: each rank has its own, and they drift apart",
              steps, false, false);
      wrapped(group, "SyncBatchNorm: the mean of all ranks' batches", steps, true, true);
      replicated(group, "DataParallel: one process; only the first replica's are kept", steps);
    });
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
