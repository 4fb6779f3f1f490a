#include "ddp/rendezvous/backends.h"

#include "ddp/backend/nccl.h"
#include "ddp/errors.h"
#include "ddp/rendezvous/connecting.h"
#include "ddp/rendezvous/launcher.h"

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <stdexcept>
#include <vector>

namespace lockstep {

namespace {

using BackendType = c10d::ProcessGroup::BackendType;

// If NCCL was not requested, a machine without a GPU loads nothing to find out.
std::string problem_with_nccl(bool is_asked_for) {
  if (!is_asked_for && !may_have_gpu())
    return "this machine has no NVIDIA GPU, or no driver for it";
  return usable_gpus().problem;
}

bool has_nccl(const BackendDecision& decision) {
  return decision.wish.cuda == "nccl";
}

Placement placement_of(const std::vector<std::string>& places, const BackendDecision& decision) {
  std::vector<RankPlace> ranks;
  for (const std::string& place : places) ranks.push_back(place_from(place));
  return place_ranks(ranks, decision.ranks_per_device);
}

}  // namespace

Property BackendDecision::property() const {
  const std::string crowd =
      ranks_per_device > 1 ? ", " + std::to_string(ranks_per_device) + " ranks a GPU" : "";
  return {.subject =
              "the backends (InitOptions::backend, equal on all ranks, leaves nothing to decide)",
          .value = words_of(wish) + (wish.is_default ? " by default" : "") + crowd,
          .because = because()};
}

std::string BackendDecision::because() const {
  return why_no_nccl.empty() ? "" : "no nccl: " + why_no_nccl;
}

void check_backends(const InitOptions& options) {
  const BackendWish wish = read_backend(options.backend);
  if (options.device_index && !wish.is_default && wish.cuda != "nccl") {
    throw UsageError("init_process_group: device_index is given, and the backend is '" +
                     options.backend + "': it is NCCL that needs a GPU for each rank");
  }
}

BackendDecision decide_backends(const InitOptions& options) {
  BackendDecision decision{.wish = read_backend(options.backend),
                           .ranks_per_device = options.ranks_per_device};
  // Naming a GPU is a request for NCCL.
  if (decision.wish.is_default && options.device_index)
    decision.wish = {.cpu = "gloo", .cuda = "nccl"};
  if (decision.wish.is_default) {
    decision.why_no_nccl = problem_with_nccl(false);
    decision.wish = default_backend(decision.why_no_nccl);
  } else if (decision.wish.cuda == "nccl") {
    const std::string problem = problem_with_nccl(true);
    if (!problem.empty())
      decision.validation_error = "it is to carry CUDA tensors over nccl, and cannot: " + problem;
  }
  return decision;
}

std::string place_of_this_rank(const RankAndSize& position, const std::optional<int>& asked_for,
                               const BackendDecision& decision) {
  if (!has_nccl(decision)) return "";
  RankPlace place{
      .host = name_of_this_host(), .gpus = usable_gpus().names, .device_index = asked_for};
  const Launch launch = launch_from_environment(process_environment);
  if (launch.position.rank == position.rank && launch.position.world_size == position.world_size)
    place.local_rank = launch.local_rank;
  return text_of(place);
}

std::string problem_with_places(const std::vector<std::string>& places,
                                const BackendDecision& decision) {
  if (!has_nccl(decision) || decision.wish.is_default) return "";
  return placement_of(places, decision).problem;
}

std::optional<int> choose_device(const std::vector<std::string>& places, int rank,
                                 BackendDecision& decision) {
  if (!has_nccl(decision)) return std::nullopt;
  const Placement placement = placement_of(places, decision);
  if (placement.problem.empty()) return placement.device_indices.at(static_cast<std::size_t>(rank));
  decision.why_no_nccl = placement.problem;
  decision.wish = default_backend(placement.problem);
  return std::nullopt;
}

c10::intrusive_ptr<c10d::ProcessGroup> make_decided_group(
    const c10::intrusive_ptr<c10d::Store>& store, const RankAndSize& position,
    std::chrono::milliseconds timeout, std::chrono::milliseconds time_left,
    const BackendDecision& decision, std::optional<int> device,
    const c10::intrusive_ptr<c10d::Backend>& gloo) {
  auto group = c10::make_intrusive<c10d::ProcessGroup>(store, position.rank, position.world_size);
  // First, since backends receive it as they are set.
  if (device)
    group->setBoundDeviceId(c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(*device)));
  if (!decision.wish.cpu.empty()) group->setBackend(c10::kCPU, BackendType::GLOO, gloo);
  if (decision.wish.cuda == "gloo") group->setBackend(c10::kCUDA, BackendType::GLOO, gloo);
  if (decision.wish.cuda == "nccl") {
    const auto nccl =
        make_nccl_backend(c10::make_intrusive<c10d::PrefixStore>("lockstep/nccl", store),
                          position.rank, position.world_size, device.value(), timeout);
    group->setBackend(c10::kCUDA, BackendType::NCCL, nccl);
    // By default there may never be a CUDA tensor: then no GPU is touched.
    if (!decision.wish.is_default) {
      // A thread that waits in a store blocks all others from using it.
      const auto own_store = store->clone();
      try {
        connect_nccl(nccl, *device, time_left, [&] { return failed_connection(*own_store); });
      } catch (const std::exception& error) {
        throw std::runtime_error("over nccl: " + first_line(error));
      }
    }
  }
  group->setDefaultBackend(gloo ? BackendType::GLOO : BackendType::NCCL);
  const std::string because = decision.because();
  group->setGroupDesc(words_of(decision.wish) + (because.empty() ? "" : " (" + because + ")"));
  return group;
}

}  // namespace lockstep
