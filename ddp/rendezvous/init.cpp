#include "ddp/init.h"

#include "ddp/backend/gloo.h"
#include "ddp/base/waiting.h"
#include "ddp/errors.h"
#include "ddp/launcher_report.h"
#include "ddp/rendezvous/backends.h"
#include "ddp/rendezvous/connecting.h"
#include "ddp/rendezvous/launcher.h"
#include "ddp/rendezvous/listening.h"
#include "ddp/rendezvous/rendezvous.h"
#include "ddp/rendezvous/store_at.h"
#include "ddp/version.h"

#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/version.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <memory>
#include <utility>
#include <vector>

namespace lockstep {

namespace {

constexpr std::chrono::minutes kNcclTimeout{10};  // kProcessGroupNCCLDefaultTimeout

void check(const InitOptions& options) {
  if (options.timeout && *options.timeout <= std::chrono::milliseconds::zero()) {
    throw UsageError("init_process_group: timeout is " + std::to_string(options.timeout->count()) +
                     " ms, expected a positive time");
  }
  if (options.threads < 1) {
    throw UsageError("init_process_group: threads is " + std::to_string(options.threads) +
                     ", expected at least 1");
  }
  if (options.ranks_per_device < 1) {
    throw UsageError("init_process_group: ranks_per_device is " +
                     std::to_string(options.ranks_per_device) + ", expected at least 1");
  }
  check_backends(options);
  if (options.rank.has_value() != options.world_size.has_value()) {
    throw UsageError(
        std::string("init_process_group: ") +
        (options.rank ? "rank is given without world_size" : "world_size is given without rank"));
  }
  if (options.store && !options.rank) {
    throw UsageError("init_process_group: a store is given without rank and world_size");
  }
}

Launch launch_of(const InitOptions& options) {
  if (!options.rank) return launch_from_environment(process_environment);
  const RankAndSize position{.rank = *options.rank, .world_size = *options.world_size};
  if (position.world_size < 1 || position.rank < 0 || position.rank >= position.world_size) {
    throw UsageError("init_process_group: rank " + std::to_string(position.rank) +
                     " of world_size " + std::to_string(position.world_size) +
                     ", expected world_size of at least 1 and 0 <= rank < world_size");
  }
  // As if the user had set the variables by hand.
  return {.launcher = Launcher::kTorchrun, .position = position};
}

// The parts that a rank needs for the rendezvous.
struct ResolvedOptions {
  InitOptions options;
  RankAndSize position;
  RendezvousAddress point;  // if there is no store

  // For the rendezvous and over Gloo.
  std::chrono::milliseconds timeout() const {
    return options.timeout.value_or(kProcessGroupDefaultTimeout);
  }
  std::string place() const {
    if (options.store || point.address.empty()) return "";
    return " at " + point.address + ":" + std::to_string(point.port);
  }
};

// True if the user has named an interface or address on the network where this rank listens.
bool expects_other_hosts(const InitOptions& options, const Launch& launch) {
  const bool is_on_network = options.interface_name.empty()
                                 ? !options.hostname.empty() && !is_loopback(options.hostname)
                                 : options.interface_name != "lo";
  return is_on_network && launch.local_world_size != launch.position.world_size;
}

// Reads options and environment, and opens nothing.
ResolvedOptions resolve(const InitOptions& options) {
  check(options);
  const Launch launch = launch_of(options);
  ResolvedOptions resolved{.options = options, .position = launch.position};
  const bool is_alone = launch.launcher != Launcher::kTorchrun && launch.position.world_size == 1;
  if (!options.store && is_alone) {
    resolved.options.store = c10::make_intrusive<c10d::HashStore>();
  } else if (!options.store) {
    resolved.point = rendezvous_address_from_environment(process_environment, launch);
  }
  const auto name = value_in(process_environment, "GLOO_SOCKET_IFNAME");
  const bool is_named = !options.interface_name.empty() || !options.hostname.empty();
  if (!is_named && name) resolved.options.interface_name = *name;
  resolved.point.expects_other_hosts = expects_other_hosts(resolved.options, launch);
  if (!is_named && !name) {
    resolved.options.hostname = resolved.options.store
                                    ? "127.0.0.1"
                                    : listening_address(launch, resolved.point, address_towards);
  }
  return resolved;
}

// True if the store has been opened, for the error message.
using IsOpen = std::atomic<bool>;

std::shared_ptr<::gloo::transport::Device> listen(const InitOptions& options,
                                                  std::string& validation_error) {
  try {
    return make_gloo_device(options.interface_name, options.hostname);
  } catch (const std::exception& error) {
    validation_error =
        (options.interface_name.empty() ? "it cannot listen on the address "
                                        : "it cannot listen on the interface ") +
        (options.interface_name.empty() ? options.hostname : options.interface_name) + " (" +
        first_line(error) + ")";
    return nullptr;
  }
}

// Gloo has one timeout for connecting and for collectives; connecting gets what is left of the
// rendezvous's.
c10::intrusive_ptr<c10d::Backend> connected_gloo(const c10::intrusive_ptr<c10d::Store>& store,
                                                 const RankAndSize& position,
                                                 std::shared_ptr<::gloo::transport::Device> device,
                                                 int threads, std::chrono::milliseconds timeout,
                                                 std::chrono::milliseconds time_left) {
  try {
    auto gloo = make_gloo_backend(store, position.rank, position.world_size, std::move(device),
                                  {.timeout = time_left, .threads = threads});
    gloo->setTimeout(timeout);
    return gloo;
  } catch (const std::exception& error) {
    throw std::runtime_error("over gloo: " + first_line(error));
  }
}

c10::intrusive_ptr<c10d::ProcessGroup> connected_group(const ResolvedOptions& resolved,
                                                       IsOpen& is_open) {
  const Deadline deadline = deadline_in(resolved.timeout());
  const InitOptions options = resolved.options;
  const RankAndSize position = resolved.position;
  BackendDecision decision = decide_backends(options);
  const bool needs_gloo = decision.wish.cpu == "gloo" || decision.wish.cuda == "gloo";
  std::string validation_error = decision.validation_error;
  const auto device = needs_gloo ? listen(options, validation_error) : nullptr;
  const auto store =
      options.store ? options.store : open_store(resolved.point, position, time_left(deadline));
  is_open = true;
  const auto places = rendezvous_in(
      *store, position, time_left(deadline),
      {.description = {.properties = {{"the version",
                                       "Lockstep " + version() + " on PyTorch " TORCH_VERSION},
                                      decision.property()},
                       .validation_error = validation_error.empty()
                                               ? std::nullopt
                                               : std::optional(validation_error)},
       .place = place_of_this_rank(position, options.device_index, decision)},
      [&](const std::vector<std::string>& each) { return problem_with_places(each, decision); });
  const auto gpu = choose_device(places, position.rank, decision);
  const auto group = std::make_shared<c10::intrusive_ptr<c10d::ProcessGroup>>();
  const auto left = time_left(deadline);
  connect_in(store, position, left, [=] {
    const auto gloo = needs_gloo ? connected_gloo(store, position, device, options.threads,
                                                  resolved.timeout(), left)
                                 : nullptr;
    *group = make_decided_group(store, position, options.timeout.value_or(kNcclTimeout),
                                time_left(deadline), decision, gpu, gloo);
  });
  return *group;
}

// c10's own errors are those of a store: all other errors have a message of this library.
std::string cause_of(const ResolvedOptions& resolved, bool is_open, const std::exception& error) {
  const std::string line = first_line(error);
  if (!is_open || resolved.options.store || dynamic_cast<const c10::Error*>(&error) == nullptr)
    return line;
  return "the store is gone: " + holder_of(resolved.point) +
         " has ended, and says why if it could (" + line + ")";
}

c10::intrusive_ptr<c10d::ProcessGroup> init(const InitOptions& options) {
  const ResolvedOptions resolved = resolve(options);
  const auto start = std::chrono::steady_clock::now();
  const auto is_open = std::make_shared<IsOpen>(false);
  constexpr std::chrono::seconds kGrace{5};  // longer than stay_until_read() takes
  try {
    return in_time<c10::intrusive_ptr<c10d::ProcessGroup>>(
        resolved.timeout() + kGrace,
        [resolved, is_open] { return connected_group(resolved, *is_open); },
        [&] {
          return "the store does not answer any more" +
                 (resolved.options.store ? ""
                                         : ": " + holder_of(resolved.point) + " may be stopped");
        });
  } catch (const UsageError&) {
    throw;
  } catch (const DisagreementError&) {
    throw;
  } catch (const std::exception& error) {
    const auto waited = std::chrono::steady_clock::now() - start;
    throw CommunicationError(resolved.position.rank,
                             "the rendezvous of " + std::to_string(resolved.position.world_size) +
                                 " ranks" + resolved.place(),
                             -1, std::chrono::duration_cast<std::chrono::milliseconds>(waited),
                             cause_of(resolved, *is_open, error));
  }
}

}  // namespace

c10::intrusive_ptr<c10d::ProcessGroup> init_process_group(const InitOptions& options) {
  try {
    return init(options);
  } catch (const Error& error) {
    report_for_the_program(error.what());
    throw;
  }
}

std::string backends_of(c10d::ProcessGroup& group) {
  const std::string decided = group.getGroupDesc();
  if (decided.starts_with("cpu:") || decided.starts_with("cuda:")) return decided;
  std::vector<c10::DeviceType> types;
  for (const c10::Device& device : group.getDeviceTypes()) types.push_back(device.type());
  std::sort(types.begin(), types.end());
  std::string text;
  for (const c10::DeviceType type : types) {
    text += (text.empty() ? "" : ",") + c10::DeviceTypeName(type, true) + ":" +
            group.getBackend(type)->getBackendName();
  }
  return text;
}

c10::intrusive_ptr<c10d::ProcessGroup> make_process_group(
    const c10::intrusive_ptr<c10d::Backend>& backend,
    const c10::intrusive_ptr<c10d::Store>& store) {
  if (!backend) throw UsageError("make_process_group: the backend is null");
  const auto type = c10d::ProcessGroup::strToBackendType(backend->getBackendName());
  auto group =
      c10::make_intrusive<c10d::ProcessGroup>(store, backend->getRank(), backend->getSize());
  group->setBackend(c10::DeviceType::CPU, type, backend);
  group->setDefaultBackend(type);
  return group;
}

}  // namespace lockstep
