// The only file of this library that includes Gloo's headers.
#include "ddp/backend/gloo.h"

#include "ddp/backend/broken_pipes.h"
#include "ddp/errors.h"

#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <algorithm>
#include <utility>
#include <vector>

namespace lockstep {

namespace {

using Gloo = c10d::ProcessGroupGloo;

// A rank's split returns as soon as it has connected itself, and the rank may destroy the new group
// while a peer, which sees that connection closed, is still connecting to others. So split ends
// with a barrier, as init_process_group() does.
void wait_until_all_have_connected(Gloo& part, std::chrono::milliseconds timeout) {
  c10d::BarrierOptions options;
  options.timeout = timeout;
  try {
    part.barrier(options)->wait(timeout);
  } catch (const std::exception& error) {
    C10_THROW_ERROR(DistBackendError,
                    "the barrier of the ranks that have connected failed: " + first_line(error));
  }
}

// Note [Splitting Gloo]
// PyTorch 2.11's split writes the split group's ranks into the options that it is given, which are
// those of the whole group, and gives them to the split group: the next split reads as many ranks
// as the whole has from there, beyond the end if the split group is smaller. If there are no ranks
// in the options, it reads a list made for the first group of the process. So a split group gets
// its own options here.
class GlooBackend final : public Gloo {
 public:
  GlooBackend(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
              const c10::intrusive_ptr<Options>& options)
      : Gloo(store, rank, size, options), options_(options) {}

  c10::intrusive_ptr<c10d::Backend::Options> getBackendOptions() override {
    return copy_of_options();
  }

  c10::intrusive_ptr<c10d::Backend> split(
      const c10::intrusive_ptr<c10d::Store>& store, const std::vector<int>& ranks,
      const c10::intrusive_ptr<c10d::Backend::Options>& options) override {
    const auto place = std::find(ranks.begin(), ranks.end(), getRank());
    if (place == ranks.end()) return nullptr;
    const BrokenPipesAreErrors guard;
    auto own = copy_of_options();
    if (options) own->timeout = options->timeout;
    if (options) own->group_name = options->group_name;
    own->global_ranks_in_group.clear();
    for (const int rank : ranks)
      own->global_ranks_in_group.push_back(
          options_->global_ranks_in_group.at(static_cast<std::size_t>(rank)));
    auto part =
        c10::make_intrusive<GlooBackend>(store->clone(), static_cast<int>(place - ranks.begin()),
                                         static_cast<int>(ranks.size()), own);
    wait_until_all_have_connected(*part, own->timeout);
    return part;
  }

 private:
  c10::intrusive_ptr<Options> copy_of_options() const {
    auto copy = Options::create(options_->timeout);
    copy->group_name = options_->group_name;
    copy->group_desc = options_->group_desc;
    copy->global_ranks_in_group = options_->global_ranks_in_group;
    copy->devices = options_->devices;
    copy->threads = options_->threads;
    return copy;
  }

  const c10::intrusive_ptr<Options> options_;
};

}  // namespace

std::shared_ptr<::gloo::transport::Device> make_gloo_device(const std::string& interface_name,
                                                            const std::string& hostname) {
  const BrokenPipesAreErrors guard;
  return interface_name.empty() ? Gloo::createDeviceForHostname(hostname)
                                : Gloo::createDeviceForInterface(interface_name);
}

c10::intrusive_ptr<c10d::Backend> make_gloo_backend(
    const c10::intrusive_ptr<c10d::Store>& store, int rank, int world_size,
    std::shared_ptr<::gloo::transport::Device> device, const GlooOptions& options) {
  const BrokenPipesAreErrors guard;
  auto gloo = Gloo::Options::create(options.timeout);
  gloo->threads = options.threads;
  gloo->devices.push_back(std::move(device));
  for (int each = 0; each < world_size; ++each)
    gloo->global_ranks_in_group.push_back(static_cast<std::uint64_t>(each));
  return c10::make_intrusive<GlooBackend>(store, rank, world_size, gloo);
}

bool is_closed_connection(const std::string& message) {
  const auto texts = {"Connection closed by peer", "Connection reset by peer", "Broken pipe",
                      "Socket closed"};
  return std::any_of(texts.begin(), texts.end(),
                     [&](const char* text) { return message.find(text) != std::string::npos; });
}

}  // namespace lockstep
