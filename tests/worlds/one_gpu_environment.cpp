// Prints the variables of RANK of RUN with an NCCL of that version, one a line, for tests that
// start ranks themselves.
#include "harness/worlds/devices/one_gpu.h"

#include <cstdlib>
#include <iostream>

int main(int count, char** arguments) {
  if (count != 5) {
    std::cerr << "usage: one_gpu_environment RANK RUN MAJOR MINOR\n";
    return 2;
  }
  const lockstep::NcclVersion version{.major = std::atoi(arguments[3]),
                                      .minor = std::atoi(arguments[4])};
  for (const auto& [name, value] : lockstep::one_gpu_environment(
           std::atoi(arguments[1]), arguments[2], version, lockstep::Hosts::one))
    std::cout << name << "=" << value << "\n";
}
