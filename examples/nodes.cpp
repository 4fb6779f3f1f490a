// Prints the rank and the host of each process, to show what a launcher has started.
//
//   lockstep launch -n 4 nodes
//   lockstep launch -n 4 --nnodes 2 --node-rank K --rendezvous node-a:29500 nodes     # on host K
#include "lockstep/ddp.h"

#include <torch/torch.h>

#include <iostream>
#include <unistd.h>

int main() {
  try {
    const auto group = lockstep::init_process_group();
    const auto host = torch::zeros({256}, torch::kUInt8);
    ::gethostname(reinterpret_cast<char*>(host.data_ptr<std::uint8_t>()), 255);
    const auto hosts = lockstep::all_gather(group, host);
    const auto places = lockstep::all_gather(group, torch::tensor(lockstep::local_rank(*group)));
    for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
      lockstep::print_rank_0(group, "rank ", rank, " of ", hosts.size(), ": local rank ",
                             places[rank].item<int>(), " on ",
                             reinterpret_cast<const char*>(hosts[rank].data_ptr<std::uint8_t>()));
    }
  } catch (const std::exception& error) {
    lockstep::report_to_launcher(error.what());
    std::cerr << error.what() << "\n";
    return 1;
  }
}
