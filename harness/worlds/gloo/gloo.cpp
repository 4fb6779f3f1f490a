#include "harness/worlds/gloo/gloo.h"

#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

namespace lockstep {

bool gloo_available() {
#ifdef USE_C10D_GLOO
  return true;
#else
  return false;
#endif
}

c10::intrusive_ptr<c10d::Backend> gloo_backend(const c10::intrusive_ptr<c10d::Store>& store,
                                               int rank, const std::vector<int>& ranks,
                                               std::chrono::milliseconds timeout,
                                               const std::string& listens_on) {
  auto options = c10d::ProcessGroupGloo::Options::create(timeout);
  options->threads = 1;
  options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname(listens_on));
  // Otherwise splitting it reads a list that PyTorch 2.11 made for the first group of the process,
  // past its end where that group was smaller.
  options->global_ranks_in_group.assign(ranks.begin(), ranks.end());
  return c10::make_intrusive<c10d::ProcessGroupGloo>(store, rank, static_cast<int>(ranks.size()),
                                                     options);
}

}  // namespace lockstep
