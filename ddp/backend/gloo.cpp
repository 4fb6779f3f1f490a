// The only file of this library that includes Gloo's headers.
#include "ddp/backend/gloo.h"

#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <csignal>
#include <ctime>
#include <utility>

namespace lockstep {

namespace {

// Note [A dead peer and SIGPIPE]
// Gloo writes to sockets without MSG_NOSIGNAL, so a peer's death kills a C++ process that happens
// to write at that moment, without a word (Python ignores the signal from its start). The signal
// goes to the thread that writes, and threads inherit the mask of their creator: blocking it here,
// while Gloo makes its threads and connects, turns it into an error for good and leaves the
// process's own handling alone.
class BrokenPipesAreErrors {
 public:
  BrokenPipesAreErrors() {
    ::sigemptyset(&broken_pipe_);
    ::sigaddset(&broken_pipe_, SIGPIPE);
    sigset_t pending;
    ::sigpending(&pending);
    was_pending_ = ::sigismember(&pending, SIGPIPE) == 1;
    ::pthread_sigmask(SIG_BLOCK, &broken_pipe_, &before_);
  }
  ~BrokenPipesAreErrors() {
    const timespec no_time{};
    if (!was_pending_) ::sigtimedwait(&broken_pipe_, nullptr, &no_time);  // drop one of our own
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  BrokenPipesAreErrors(const BrokenPipesAreErrors&) = delete;
  BrokenPipesAreErrors& operator=(const BrokenPipesAreErrors&) = delete;

 private:
  sigset_t broken_pipe_;
  sigset_t before_;
  bool was_pending_ = false;
};

}  // namespace

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
