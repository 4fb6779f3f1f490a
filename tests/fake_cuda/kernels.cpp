#include "tests/fake_cuda/kernels.h"

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

namespace lockstep::fake_cuda {

namespace {

using Work = std::function<void()>;

bool has(const std::string& name, const std::string& part) {
  return name.find(part) != std::string::npos;
}

template <class T>
T argument(void** arguments, std::size_t index) {
  return *static_cast<const T*>(arguments[index]);
}

// All of these are at::native's elementwise kernels over contiguous memory: the count, the functor,
// and where the output and the inputs are.
template <std::size_t Pointers>
struct Elementwise {
  template <class Each>
  static Work make(void** arguments, Each each) {
    const int count = argument<int>(arguments, 0);
    const auto data = argument<std::array<char*, Pointers>>(arguments, 2);
    return [=] {
      for (int i = 0; i < count; ++i) each(data, i);
    };
  }
};

template <class T>
T& at(char* data, int i) {
  return reinterpret_cast<T*>(data)[i];
}

template <class T>
Work fill(const KernelLaunch& launch) {
  void** const arguments = launch.arguments;
  const T value = argument<T>(arguments, 1);
  return Elementwise<1>::make(arguments,
                              [=](const auto& data, int i) { at<T>(data[0], i) = value; });
}

// A functor with nothing in it, and behind it the number that is bound.
template <class T>
struct Bound {
  char nothing;
  T number;
};

template <class T>
Work scale(const KernelLaunch& launch) {
  void** const arguments = launch.arguments;
  const T factor = argument<Bound<T>>(arguments, 1).number;
  return Elementwise<2>::make(
      arguments, [=](const auto& data, int i) { at<T>(data[0], i) = at<T>(data[1], i) * factor; });
}

template <class T>
Work add(const KernelLaunch& launch) {
  void** const arguments = launch.arguments;
  const T factor = argument<T>(arguments, 1);
  return Elementwise<3>::make(arguments, [=](const auto& data, int i) {
    at<T>(data[0], i) = at<T>(data[1], i) + factor * at<T>(data[2], i);
  });
}

template <class T>
Work multiply(const KernelLaunch& launch) {
  void** const arguments = launch.arguments;
  return Elementwise<3>::make(arguments, [=](const auto& data, int i) {
    at<T>(data[0], i) = at<T>(data[1], i) * at<T>(data[2], i);
  });
}

// Tensors of elements of Bytes behind each other, as at::cat hands them over: up to 128 in a
// launch, a row of blocks each. Where each begins is counted in elements.
template <std::size_t Bytes>
Work put_behind_each_other(const KernelLaunch& launch) {
  constexpr std::size_t kInputsMax = 128;
  struct Inputs {
    const char* data[kInputsMax];
    std::uint32_t offset[kInputsMax];
    std::uint32_t rows[kInputsMax];
    std::uint32_t count[kInputsMax];
  };
  char* const output = argument<char*>(launch.arguments, 0);
  const auto inputs = argument<Inputs>(launch.arguments, 1);
  const auto row = argument<std::uint32_t>(launch.arguments, 4);
  return [=, count = launch.grid_y] {
    for (unsigned i = 0; i < count; ++i)
      std::memcpy(output + std::size_t{inputs.offset[i]} * row * Bytes, inputs.data[i],
                  inputs.count[i] * Bytes);
  };
}

// The kernel that holds up a stream: for cycles of a clock of 1 GHz.
Work spin(const KernelLaunch& launch) {
  const std::chrono::nanoseconds time(argument<std::int64_t>(launch.arguments, 0));
  return [=] {
    const auto until = std::chrono::steady_clock::now() + time;
    while (std::chrono::steady_clock::now() < until) std::this_thread::yield();
  };
}

struct Known {
  std::vector<std::string> parts;  // of the mangled name
  Work (*make)(const KernelLaunch& launch);
};

const std::vector<Known>& all_known() {
  static const auto* const known = new std::vector<Known>{
      {{"vectorized_elementwise_kernel", "11FillFunctorIfE"}, fill<float>},
      {{"vectorized_elementwise_kernel", "11FillFunctorIdE"}, fill<double>},
      {{"vectorized_elementwise_kernel", "11FillFunctorIlE"}, fill<std::int64_t>},
      {{"vectorized_elementwise_kernel", "11FillFunctorIiE"}, fill<std::int32_t>},
      {{"vectorized_elementwise_kernel", "11FillFunctorIhE"}, fill<std::uint8_t>},
      {{"vectorized_elementwise_kernel", "15CUDAFunctor_addIfE"}, add<float>},
      {{"vectorized_elementwise_kernel", "15CUDAFunctor_addIdE"}, add<double>},
      {{"vectorized_elementwise_kernel", "AUnaryFunctorIfff", "10MulFunctorIfE"}, scale<float>},
      {{"vectorized_elementwise_kernel", "BUnaryFunctorIfff", "10MulFunctorIfE"}, scale<float>},
      {{"vectorized_elementwise_kernel", "BinaryFunctorIfff", "10MulFunctorIfE"}, multiply<float>},
      {{"CatArrayBatchedCopy_", "OpaqueTypeILj4EEEjLi1ELi128E"}, put_behind_each_other<4>},
      {{"CatArrayBatchedCopy_", "OpaqueTypeILj8EEEjLi1ELi128E"}, put_behind_each_other<8>},
      {{"at4cuda", "spin_kernelEl"}, spin},
  };
  return *known;
}

}  // namespace

Work work_of_kernel(const KernelLaunch& launch) {
  for (const Known& each : all_known()) {
    bool is_it = true;
    for (const std::string& part : each.parts) is_it = is_it && has(launch.name, part);
    if (is_it) return each.make(launch);
  }
  return nullptr;
}

}  // namespace lockstep::fake_cuda
