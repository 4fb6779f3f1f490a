// The driver's device files: a program that asks whether they exist finds one.
#include "tests/fake_cuda/api.h"
#include "tests/fake_cuda/journal.h"

#include <cstring>
#include <dlfcn.h>

namespace {

// `told` is a struct stat, which is of no concern here, so that it need not know which of two.
using Ask = int (*)(const char* path, void* told);

int ask(const char* function, const char* path, void* told) {
  const auto real = reinterpret_cast<Ask>(::dlsym(RTLD_NEXT, function));
  if (real == nullptr) lockstep::fake_cuda::give_up(std::string("there is no ") + function);
  return real(std::strcmp(path, "/dev/nvidiactl") == 0 ? "/dev/null" : path, told);
}

}  // namespace

LOCKSTEP_FAKE_CUDA_API int stat(const char* path, void* told) {
  return ask("stat", path, told);
}

LOCKSTEP_FAKE_CUDA_API int stat64(const char* path, void* told) {
  return ask("stat64", path, told);
}

// The name of stat before glibc 2.33, as LibTorch's copy of std::filesystem calls it.
LOCKSTEP_FAKE_CUDA_API int __xstat(int, const char* path, void* told) {
  return ask("stat", path, told);
}
