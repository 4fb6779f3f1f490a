// The only file of this library that includes Gloo's headers.
#include "ddp/backend/gloo.h"

#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

namespace lockstep {

c10::intrusive_ptr<c10d::Backend> make_gloo_backend(const c10::intrusive_ptr<c10d::Store>& store,
                                                    int rank, int world_size,
                                                    const InitOptions& options) {
  using Gloo = c10d::ProcessGroupGloo;
  auto gloo = Gloo::Options::create(options.timeout);
  gloo->threads = options.threads;
  gloo->devices.push_back(options.interface_name.empty()
                              ? Gloo::createDeviceForHostname(options.hostname)
                              : Gloo::createDeviceForInterface(options.interface_name));
  return c10::make_intrusive<Gloo>(store, rank, world_size, gloo);
}

}  // namespace lockstep
