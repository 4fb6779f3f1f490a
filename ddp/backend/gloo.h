#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <memory>
#include <string>

namespace gloo::transport {
class Device;
}

namespace lockstep {

// Listens on an interface or, if that is empty, on an address of this host. Local; throws what Gloo
// throws if there is none such.
std::shared_ptr<::gloo::transport::Device> make_gloo_device(const std::string& interface_name,
                                                            const std::string& hostname);

// A Gloo backend for `rank` of `world_size` that finds its peers through `store` and listens on
// `device`. Collective; blocks up to the timeout; throws c10::Error. Its threads report a dead peer
// as an error, never as SIGPIPE.
struct GlooOptions {
  std::chrono::milliseconds timeout;
  int threads;
};
c10::intrusive_ptr<c10d::Backend> make_gloo_backend(
    const c10::intrusive_ptr<c10d::Store>& store, int rank, int world_size,
    std::shared_ptr<::gloo::transport::Device> device, const GlooOptions& options);

// True if Gloo's message says that a peer closed the connection to this rank.
bool is_closed_connection(const std::string& message);

}  // namespace lockstep
