// What test_launched.py starts bare and under every launcher. One line a rank on its standard
// output, "rank 1 of 2, here 1, sum 3", or the sentence of what it caught on its standard error and
// exit 1.
//
// usage: launched [sum | interface | train [TIMEOUT_MS] | fail-once FILE]
//   sum        each rank adds its rank plus one
//   interface  rank 1 listens on an interface that is not there
//   fail-once  the last rank leaves with exit 3 if FILE is not there, and writes it
//   train      steps without end; after the second, a line
#include "tests/launcher/launched.h"

#include "ddp/distributed_data_parallel.h"
#include "ddp/init.h"
#include "ddp/meeting/environment.h"
#include "ddp/meeting/launcher_report.h"

#include <torch/torch.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
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

// Whether it is the first attempt, the last rank says: torchrun's agents do not agree on a number.
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

void run(const std::string& what, const std::string& more) {
  const std::chrono::milliseconds timeout(what == "fail-once" || more.empty() ? 30000
                                                                              : std::stoi(more));
  lockstep::InitOptions options{.timeout = timeout};
  if (what == "interface" && lockstep::process_environment("RANK") == "1")
    options.interface_name = "nope0";
  const Group group = lockstep::init_process_group(options);
  if (what == "train") return train(group, timeout);
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
