#pragma once

#include <functional>
#include <string>

namespace lockstep::fake_cuda {

// A launch: the kernel's mangled name, how many blocks it has in y, and where its arguments are.
struct KernelLaunch {
  std::string name;
  unsigned grid_y = 1;
  void** arguments = nullptr;
};

// Returns the work of a kernel of ATen's, with its arguments copied; on the host, in a loop. Empty
// where it is not one of the few that are known here: filling, adding, multiplying and scaling of
// contiguous numbers, putting flat tensors behind each other, and holding up a stream. How their
// arguments lie is LibTorch 2.11's.
std::function<void()> work_of_kernel(const KernelLaunch& launch);

}  // namespace lockstep::fake_cuda
