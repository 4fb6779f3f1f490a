#include "ddp/init.h"

#include "ddp/backend/gloo.h"
#include "ddp/backends.h"
#include "ddp/errors.h"
#include "ddp/meeting/launcher.h"
#include "ddp/meeting/launcher_report.h"
#include "ddp/meeting/listening.h"
#include "ddp/meeting/rendezvous.h"
#include "ddp/version.h"

#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <torch/version.h>

#include <algorithm>
#include <exception>
#include <future>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

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
  const Standing standing{.rank = *options.rank, .world_size = *options.world_size};
  if (standing.world_size < 1 || standing.rank < 0 || standing.rank >= standing.world_size) {
    throw UsageError("init_process_group: rank " + std::to_string(standing.rank) +
                     " of world_size " + std::to_string(standing.world_size) +
                     ", expected world_size of at least 1 and 0 <= rank < world_size");
  }
  // As somebody says who sets the variables by hand.
  return {.launcher = Launcher::kTorchrun, .standing = standing};
}

// All that a rank needs to meet the others.
struct Plan {
  InitOptions options;
  Standing standing;
  MeetingPoint point;  // where there is no store

  std::string place() const {
    if (options.store || point.address.empty()) return "";
    return " at " + point.address + ":" + std::to_string(point.port);
  }
};

// Looks at options and environment, and opens nothing.
Plan plan_of(const InitOptions& options) {
  check(options);
  const Launch launch = launch_of(options);
  Plan plan{.options = options, .standing = launch.standing};
  const bool is_alone = launch.launcher != Launcher::kTorchrun && launch.standing.world_size == 1;
  if (!options.store && is_alone) {
    plan.options.store = c10::make_intrusive<c10d::HashStore>();
  } else if (!options.store) {
    plan.point = meeting_point_from_environment(process_environment, launch);
  }
  if (!options.interface_name.empty() || !options.hostname.empty()) return plan;
  if (const auto name = value_in(process_environment, "GLOO_SOCKET_IFNAME")) {
    plan.options.interface_name = *name;
  } else {
    plan.options.hostname =
        plan.options.store ? "127.0.0.1" : listening_address(launch, plan.point, address_towards);
  }
  return plan;
}

c10::intrusive_ptr<c10d::Store> open_store(const Plan& plan) {
  if (plan.options.store) return plan.options.store;
  const MeetingPoint& point = plan.point;
  c10d::TCPStoreOptions options;
  options.port = point.port;
  options.isServer = plan.standing.rank == 0 && !point.agent_runs_store;
  // We count them ourselves, and can say who is missing.
  options.waitWorkers = false;
  options.timeout = plan.options.timeout;
  auto store = c10::make_intrusive<c10d::TCPStore>(point.address, options);
  const std::string job = point.job.empty() ? "" : point.job + "/";
  return c10::make_intrusive<c10d::PrefixStore>(
      "lockstep/" + job + "attempt_" + std::to_string(point.attempt), std::move(store));
}

std::shared_ptr<::gloo::transport::Device> listen(const InitOptions& options,
                                                  std::string& objection) {
  try {
    return make_gloo_device(options.interface_name, options.hostname);
  } catch (const std::exception& error) {
    objection = (options.interface_name.empty() ? "it cannot listen on the address "
                                                : "it cannot listen on the interface ") +
                (options.interface_name.empty() ? options.hostname : options.interface_name) +
                " (" + first_line(error) + ")";
    return nullptr;
  }
}

c10::intrusive_ptr<c10d::ProcessGroup> meet(const Plan& plan) {
  const auto start = std::chrono::steady_clock::now();
  const InitOptions& options = plan.options;
  const Standing& standing = plan.standing;
  const auto time_left = [&] {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(
        start + options.timeout - std::chrono::steady_clock::now());
    return std::max(left, std::chrono::milliseconds(1));
  };
  BackendDecision decision = decide_backends(options);
  const bool needs_gloo = decision.wish.cpu == "gloo" || decision.wish.cuda == "gloo";
  std::string objection = decision.objection;
  auto device = needs_gloo ? listen(options, objection) : nullptr;
  const auto store = open_store(plan);
  meet_in(*store, standing, options.timeout,
          {.version = "Lockstep " + version() + " on PyTorch " TORCH_VERSION,
           .backends = decision.words(),
           .backends_because = decision.because(),
           .objection = objection});
  const auto gpu = agree_on_device(*store, standing, time_left(), options.device_index, decision);
  const auto gloo = needs_gloo ? make_gloo_backend(store, standing.rank, standing.world_size,
                                                   std::move(device), options)
                               : nullptr;
  auto group = make_decided_group(store, standing, options.timeout, decision, gpu, gloo);
  wait_until_connected(*store, standing.world_size, time_left());
  return group;
}

// A TCPStore whose server accepts and says nothing (a stopped process, another program on the port)
// keeps its client for ever. So a thread meets, which is left behind if it hangs. Its own deadlines
// come first.
c10::intrusive_ptr<c10d::ProcessGroup> meet_in_time(const Plan& plan) {
  constexpr std::chrono::seconds kGrace{3};  // longer than rank 0 lets the others read
  const auto answer = std::make_shared<std::promise<c10::intrusive_ptr<c10d::ProcessGroup>>>();
  auto future = answer->get_future();
  std::thread thread([answer, plan] {
    try {
      answer->set_value(meet(plan));
    } catch (...) {
      answer->set_exception(std::current_exception());
    }
  });
  const bool is_done = future.wait_for(plan.options.timeout + kGrace) == std::future_status::ready;
  if (is_done) {
    thread.join();
    return future.get();
  }
  thread.detach();
  throw std::runtime_error("the store does not answer");
}

c10::intrusive_ptr<c10d::ProcessGroup> init(const InitOptions& options) {
  const Plan plan = plan_of(options);
  const auto start = std::chrono::steady_clock::now();
  try {
    return meet_in_time(plan);
  } catch (const UsageError&) {
    throw;
  } catch (const DisagreementError&) {
    throw;
  } catch (const std::exception& error) {
    const auto waited = std::chrono::steady_clock::now() - start;
    throw CommunicationError(
        plan.standing.rank,
        "the rendezvous of " + std::to_string(plan.standing.world_size) + " ranks" + plan.place(),
        -1, std::chrono::duration_cast<std::chrono::milliseconds>(waited), first_line(error));
  }
}

}  // namespace

c10::intrusive_ptr<c10d::ProcessGroup> init_process_group(const InitOptions& options) {
  try {
    return init(options);
  } catch (const Error& error) {
    report_to_launcher(error.what());
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
