#include "harness/worlds/devices/cuda_hold_up.h"

#include <c10/core/StreamGuard.h>

#include <cstdint>
#include <dlfcn.h>
#include <stdexcept>
#include <string>

namespace lockstep {

namespace {

// at::cuda::sleep(), whose kernel spins for a number of cycles: found by name, so that this builds
// and links without CUDA.
using SpinOnStream = void (*)(std::int64_t cycles);

SpinOnStream find_spin_on_stream() {
  constexpr const char* kLibrary = "libtorch_cuda.so";
  constexpr const char* kSymbol = "_ZN2at4cuda5sleepEl";
  void* const library = ::dlopen(kLibrary, RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr)
    throw std::runtime_error(std::string(kLibrary) + " is not loaded, so no stream can be held up");
  void* const symbol = ::dlsym(library, kSymbol);
  if (symbol == nullptr)
    throw std::runtime_error(std::string(kLibrary) + " has no at::cuda::sleep(int64_t), " +
                             kSymbol + ": this LibTorch is not the one Lockstep was made for");
  return reinterpret_cast<SpinOnStream>(symbol);
}

}  // namespace

// The kernel counts the clock of the processor that it runs on: current GPUs have 1 to 2.6 GHz, so
// this is no less than half of `time` and at most twice it.
void hold_up_cuda(const c10::Stream& stream, std::chrono::milliseconds time) {
  static const SpinOnStream spin_on_stream = find_spin_on_stream();
  constexpr std::int64_t kCyclesInMs = 2'000'000;
  const c10::StreamGuard guard(stream);
  spin_on_stream(time.count() * kCyclesInMs);
}

}  // namespace lockstep
