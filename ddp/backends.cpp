#include "ddp/backends.h"

#include "ddp/backend/nccl.h"
#include "ddp/errors.h"
#include "ddp/meeting/connecting.h"
#include "ddp/meeting/launcher.h"
#include "ddp/meeting/rendezvous.h"

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <sstream>
#include <stdexcept>
#include <vector>

namespace lockstep {

namespace {

using BackendType = c10d::ProcessGroup::BackendType;

const std::string kNoPlace = "no: ";

// Where nobody asked for it, nothing is loaded for the question on a machine without a GPU.
std::string problem_with_nccl(bool is_asked_for) {
  if (!is_asked_for && !may_have_gpu())
    return "this machine has no NVIDIA GPU, or no driver for it";
  return usable_gpus().problem;
}

RankPlace place_of_this_rank(const Standing& standing, const std::optional<int>& asked_for) {
  RankPlace place{
      .host = name_of_this_host(), .gpus = usable_gpus().names, .device_index = asked_for};
  const Launch launch = launch_from_environment(process_environment);
  if (launch.standing.rank == standing.rank && launch.standing.world_size == standing.world_size)
    place.local_rank = launch.local_rank;
  return place;
}

std::string placed_by_rank_zero(const std::vector<std::string>& said, int ranks_per_device) {
  std::vector<RankPlace> places;
  for (const std::string& text : said) places.push_back(place_from(text));
  const Placement placement = place_ranks(places, ranks_per_device);
  if (!placement.problem.empty()) return kNoPlace + placement.problem;
  std::string indices;
  for (const int index : placement.device_indices) indices += std::to_string(index) + " ";
  return indices;
}

}  // namespace

std::string BackendDecision::words() const {
  return words_of(wish) + (wish.is_default ? " by default" : "") +
         (ranks_per_device > 1 ? ", " + std::to_string(ranks_per_device) + " ranks a GPU" : "");
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
  // Who names a GPU asks for it.
  if (decision.wish.is_default && options.device_index)
    decision.wish = {.cpu = "gloo", .cuda = "nccl"};
  if (decision.wish.is_default) {
    decision.why_no_nccl = problem_with_nccl(false);
    decision.wish = default_backend(decision.why_no_nccl);
  } else if (decision.wish.cuda == "nccl") {
    const std::string problem = problem_with_nccl(true);
    if (!problem.empty())
      decision.objection = "it is to carry CUDA tensors over nccl, and cannot: " + problem;
  }
  return decision;
}

std::optional<int> agree_on_device(c10d::Store& store, const Standing& standing,
                                   std::chrono::milliseconds timeout,
                                   const std::optional<int>& asked_for, BackendDecision& decision) {
  if (decision.wish.cuda != "nccl") return std::nullopt;
  const std::string answer =
      ask_rank_zero(store, standing, timeout, text_of(place_of_this_rank(standing, asked_for)),
                    [&](const std::vector<std::string>& said) {
                      return placed_by_rank_zero(said, decision.ranks_per_device);
                    });
  if (!answer.starts_with(kNoPlace)) {
    std::istringstream indices(answer);
    int index = 0;
    for (int rank = 0; rank <= standing.rank; ++rank) indices >> index;
    return index;
  }
  const std::string problem = answer.substr(kNoPlace.size());
  if (!decision.wish.is_default) throw DisagreementError(problem);
  decision.why_no_nccl = problem;
  decision.wish = default_backend(problem);
  return std::nullopt;
}

c10::intrusive_ptr<c10d::ProcessGroup> make_decided_group(
    const c10::intrusive_ptr<c10d::Store>& store, const Standing& standing,
    std::chrono::milliseconds timeout, std::chrono::milliseconds time_left,
    const BackendDecision& decision, std::optional<int> device,
    const c10::intrusive_ptr<c10d::Backend>& gloo) {
  auto group = c10::make_intrusive<c10d::ProcessGroup>(store, standing.rank, standing.world_size);
  // First, since it is handed on to backends as they are set.
  if (device)
    group->setBoundDeviceId(c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(*device)));
  if (!decision.wish.cpu.empty()) group->setBackend(c10::kCPU, BackendType::GLOO, gloo);
  if (decision.wish.cuda == "gloo") group->setBackend(c10::kCUDA, BackendType::GLOO, gloo);
  if (decision.wish.cuda == "nccl") {
    const auto nccl =
        make_nccl_backend(c10::make_intrusive<c10d::PrefixStore>("lockstep/nccl", store),
                          standing.rank, standing.world_size, device.value(), timeout);
    group->setBackend(c10::kCUDA, BackendType::NCCL, nccl);
    // By default there may be no CUDA tensor, ever: then no GPU is touched.
    if (!decision.wish.is_default) {
      // A thread that waits in a store keeps all others from using it.
      const auto own_store = store->clone();
      try {
        connect_nccl(nccl, *device, time_left,
                     [&] { return told_of_failed_connection(*own_store); });
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
