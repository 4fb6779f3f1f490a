// The program that test_launched.py starts bare and under every launcher. One line a rank on its
// standard output, "rank 1 of 2, here 1, sum 3", or the sentence of what it caught on its standard
// error and exit 1.
//
// usage: launched [sum | interface | train [TIMEOUT_MS] | throw | leave RANK | stay RANK | again |
// record | fail-once FILE]
//   sum        each rank adds its rank plus one
//   interface  rank 1 listens on an interface that is not there
//   fail-once  the last rank leaves with exit 3 if FILE is not there, and writes it
//   train      steps without end; after the second, a line
//   throw      the last rank throws after a step, while its handle lives
//   leave      RANK makes three steps and ends, the others want a fourth
//   stay       the same, but the process of RANK lives on without its handle, until it is ended
//   again      two objects, one after the other, of two steps each
//   record     three steps, into the folder that LOCKSTEP_RECORD names
#include "tests/launcher/launched.h"

#include "ddp/base/environment.h"
#include "ddp/distributed_data_parallel.h"
#include "ddp/init.h"
#include "ddp/launcher_report.h"
#include "lockstep/recorder.h"

#include <torch/torch.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <stdexcept>
#include <string>
#include <unistd.h>

namespace {

using Group = c10::intrusive_ptr<c10d::ProcessGroup>;

// One write a rank, so that lines of several ranks do not mix.
void say(std::ostream& out, const std::string& line) {
  out << line + "\n" << std::flush;
}

void add_up(const Group& group) {
  std::vector<at::Tensor> sum = {at::full({1}, group->getRank() + 1, at::kLong)};
  group->allreduce(sum)->wait();
  say(std::cout, "rank " + std::to_string(group->getRank()) + " of " +
                     std::to_string(group->getSize()) + ", here " +
                     std::to_string(lockstep::local_rank(*group)) + ", sum " +
                     std::to_string(sum[0].item<std::int64_t>()));
}

// The last rank says whether it is the first attempt: torchrun's agents do not agree on a number.
void fail_once(const Group& group, const std::string& file) {
  const bool is_last = group->getRank() == group->getSize() - 1;
  const bool is_first = is_last && !std::filesystem::exists(file);
  std::vector<at::Tensor> first = {at::full({1}, is_first ? 1 : 0, at::kLong)};
  group->allreduce(first)->wait();
  if (is_first) {
    std::ofstream(file) << "failed";
    std::exit(3);
  }
  if (first[0].item<std::int64_t>() == 1) ::pause();  // until the agent stops this world
}

void train(const Group& group, std::chrono::milliseconds timeout) {
  torch::nn::Linear net(4, 2);
  lockstep::DistributedDataParallel ddp(net, {.process_group = group, .timeout = timeout});
  for (int step = 0;; ++step) {
    ddp.forward(torch::ones({2, 4})).sum().backward();
    if (step == 1) say(std::cout, "rank " + std::to_string(group->getRank()) + " trains");
  }
}

void train_steps(const Group& group, int steps) {
  torch::nn::Linear net(4, 2);
  lockstep::DistributedDataParallel ddp(net, {.process_group = group});
  for (int step = 0; step < steps; ++step) ddp.forward(torch::ones({2, 4})).sum().backward();
}

void train_recorded(const Group& group) {
  lockstep::Recorder recorder(group);
  torch::nn::Linear net(4, 2);
  lockstep::DistributedDataParallel ddp(net, {.process_group = recorder.group()});
  recorder.watch(ddp);
  torch::optim::SGD optimizer(net->parameters(), 0.1);
  for (int step = 0; step < 3; ++step) {
    optimizer.zero_grad();
    ddp.forward(torch::full({2, 4}, 1.0 + group->getRank())).sum().backward();
    recorder.step(optimizer);
  }
}

void train_and_throw(const Group& group) {
  torch::nn::Linear net(4, 2);
  lockstep::DistributedDataParallel ddp(net, {.process_group = group});
  ddp.forward(torch::ones({2, 4})).sum().backward();
  if (group->getRank() == group->getSize() - 1) throw std::runtime_error("batch 2 cannot be read");
  ddp.forward(torch::ones({2, 4})).sum().backward();
}

void train_unevenly(const Group& group, int rank, bool lives_on) {
  const bool is_short = group->getRank() == rank;
  train_steps(group, is_short ? 3 : 4);
  if (!is_short || !lives_on) return;
  say(std::cout, "rank " + std::to_string(rank) + " lives on");
  ::pause();
}

void run(const std::string& what, const std::string& more) {
  const std::chrono::milliseconds timeout(what == "train" && !more.empty() ? std::stoi(more)
                                                                           : 30000);
  lockstep::InitOptions options{.timeout = timeout};
  if (what == "interface" && lockstep::process_environment("RANK") == "1")
    options.interface_name = "nope0";
  const Group group = lockstep::init_process_group(options);
  if (what == "train") return train(group, timeout);
  if (what == "throw") return train_and_throw(group);
  if (what == "record") return train_recorded(group);
  if (what == "leave" || what == "stay")
    return train_unevenly(group, std::stoi(more), what == "stay");
  if (what == "again") {
    train_steps(group, 2);
    return train_steps(group, 2);
  }
  if (what == "fail-once") fail_once(group, more);
  add_up(group);
}

}  // namespace

int launched(int argument_count, char** arguments) {
  at::set_num_threads(1);
  try {
    run(argument_count > 1 ? arguments[1] : "sum", argument_count > 2 ? arguments[2] : "");
    return 0;
  } catch (const std::exception& error) {
    lockstep::report_to_launcher(error.what());
    say(std::cerr, error.what());
    return 1;
  }
}
