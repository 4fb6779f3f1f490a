#include "ddp/init.h"

#include "ddp/backend/gloo.h"
#include "ddp/environment.h"
#include "ddp/errors.h"
#include "ddp/rendezvous.h"

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <algorithm>

namespace lockstep {

namespace {

void check(const InitOptions& options) {
  if (options.timeout <= std::chrono::milliseconds::zero()) {
    throw UsageError("init_process_group: timeout is " + std::to_string(options.timeout.count()) +
                     " ms, expected a positive time");
  }
  if (options.threads < 1) {
    throw UsageError("init_process_group: threads is " + std::to_string(options.threads) +
                     ", expected at least 1");
  }
  if (options.interface_name.empty() && options.hostname.empty()) {
    throw UsageError("init_process_group: neither interface_name nor hostname is given");
  }
  if (options.rank.has_value() != options.world_size.has_value()) {
    throw UsageError(
        std::string("init_process_group: ") +
        (options.rank ? "rank is given without world_size" : "world_size is given without rank"));
  }
  if (options.store && !options.rank) {
    throw UsageError("init_process_group: a store is given without rank and world_size");
  }
}

Standing standing_of(const InitOptions& options) {
  if (!options.rank) return standing_from_environment(process_environment);
  const Standing standing{.rank = *options.rank, .world_size = *options.world_size};
  if (standing.world_size < 1 || standing.rank < 0 || standing.rank >= standing.world_size) {
    throw UsageError("init_process_group: rank " + std::to_string(standing.rank) +
                     " of world_size " + std::to_string(standing.world_size) +
                     ", expected world_size of at least 1 and 0 <= rank < world_size");
  }
  return standing;
}

c10::intrusive_ptr<c10d::Store> store_from_environment(const Standing& standing,
                                                       std::chrono::milliseconds timeout) {
  const MeetingPoint point = meeting_point_from_environment(process_environment);
  c10d::TCPStoreOptions options;
  options.port = point.port;
  options.isServer = standing.rank == 0 && !point.agent_runs_store;
  options.numWorkers = static_cast<std::size_t>(standing.world_size);
  // An agent counts its own workers; waiting for them here would wait for restarts that never were.
  options.waitWorkers = !point.agent_runs_store;
  options.timeout = timeout;
  auto store = c10::make_intrusive<c10d::TCPStore>(point.address, options);
  return c10::make_intrusive<c10d::PrefixStore>("lockstep/attempt_" + std::to_string(point.attempt),
                                                std::move(store));
}

}  // namespace

c10::intrusive_ptr<c10d::ProcessGroup> init_process_group(const InitOptions& options) {
  check(options);
  const Standing standing = standing_of(options);
  const auto start = std::chrono::steady_clock::now();
  try {
    const auto store =
        options.store ? options.store : store_from_environment(standing, options.timeout);
    meet_in(*store, standing, options.timeout);
    const auto backend = make_gloo_backend(store, standing.rank, standing.world_size, options);
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(
        start + options.timeout - std::chrono::steady_clock::now());
    wait_until_connected(*store, standing.world_size, std::max(left, std::chrono::milliseconds(1)));
    return make_process_group(backend, store);
  } catch (const UsageError&) {
    throw;
  } catch (const DisagreementError&) {
    throw;
  } catch (const std::exception& error) {
    const auto waited = std::chrono::steady_clock::now() - start;
    throw CommunicationError(
        standing.rank, "the rendezvous of " + std::to_string(standing.world_size) + " ranks", -1,
        std::chrono::duration_cast<std::chrono::milliseconds>(waited), first_line(error));
  }
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
