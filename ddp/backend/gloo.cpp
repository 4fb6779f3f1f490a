// The only file of this library that includes Gloo's headers.
#include "ddp/backend/gloo.h"

#include "ddp/backend/broken_pipes.h"

#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <utility>

namespace lockstep {

std::shared_ptr<::gloo::transport::Device> make_gloo_device(const std::string& interface_name,
                                                            const std::string& hostname) {
  using Gloo = c10d::ProcessGroupGloo;
  const BrokenPipesAreErrors guard;
  return interface_name.empty() ? Gloo::createDeviceForHostname(hostname)
                                : Gloo::createDeviceForInterface(interface_name);
}

c10::intrusive_ptr<c10d::Backend> make_gloo_backend(
    const c10::intrusive_ptr<c10d::Store>& store, int rank, int world_size,
    std::shared_ptr<::gloo::transport::Device> device, const InitOptions& options) {
  using Gloo = c10d::ProcessGroupGloo;
  const BrokenPipesAreErrors guard;
  auto gloo = Gloo::Options::create(options.timeout);
  gloo->threads = options.threads;
  gloo->devices.push_back(std::move(device));
  // Else splitting the group reads a list that PyTorch 2.11 made for the first group of the
  // process, and beyond the end of it where that was smaller.
  for (int each = 0; each < world_size; ++each)
    gloo->global_ranks_in_group.push_back(static_cast<std::uint64_t>(each));
  return c10::make_intrusive<Gloo>(store, rank, world_size, gloo);
}

}  // namespace lockstep
