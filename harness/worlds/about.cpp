#include "harness/worlds/about.h"

#include "harness/worlds/gloo/gloo.h"

#include <torch/torch.h>
#include <torch/version.h>

#include <dlfcn.h>

namespace lockstep {

namespace {

std::string library_of(const void* symbol) {
  Dl_info info{};
  if (dladdr(symbol, &info) == 0 || !info.dli_fname) return "unknown";
  return info.dli_fname;
}

}  // namespace

AboutTorch about_torch() {
  return {.version = TORCH_VERSION,
          .library = library_of(reinterpret_cast<const void*>(&at::get_num_threads)),
          .gloo = gloo_available(),
          .intra_op_threads = at::get_num_threads()};
}

void use_one_intra_op_thread() {
  at::set_num_threads(1);
}

}  // namespace lockstep
