// From one rank to another: each rank passes what it has to the next, until all have seen
// everything.
//
//   lockstep launch -n 4 point_to_point
//
// A group is c10d's, so its own send and recv are there: of lists of one tensor, with a rank of
// this group and a tag. Both sides name one shape and dtype, and wait() ends with the group's
// timeout.
#include "lockstep/ddp.h"

#include <torch/torch.h>

#include <iostream>

int main() {
  try {
    const auto group = lockstep::init_process_group();
    const int rank = group->getRank(), size = group->getSize();
    const int next = (rank + 1) % size, last = (rank + size - 1) % size;
    auto passed = torch::full({1}, rank + 1.0);
    auto sum = passed.clone();
    for (int step = 1; step < size; ++step) {
      std::vector<at::Tensor> given{passed}, received{torch::empty({1})};
      const auto sent = group->send(given, next, /*tag=*/step);
      group->recv(received, last, /*tag=*/step)->wait();
      sent->wait();
      passed = received[0];
      sum += passed;
    }
    lockstep::print_rank_0(group, "passed on ", size - 1, " times, the sum is ",
                           sum.item<double>());
  } catch (const std::exception& error) {
    lockstep::report_to_launcher(error.what());
    std::cerr << error.what() << "\n";
    return 1;
  }
}
