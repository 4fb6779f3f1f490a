// Prints the variables of RANK of RUN, one a line, for tests that start ranks themselves.
#include "harness/worlds/one_gpu.h"

#include <cstdlib>
#include <iostream>

int main(int count, char** arguments) {
  if (count != 3) {
    std::cerr << "usage: one_gpu_environment RANK RUN\n";
    return 2;
  }
  for (const auto& [name, value] :
       lockstep::one_gpu_environment(std::atoi(arguments[1]), arguments[2]))
    std::cout << name << "=" << value << "\n";
}
