#include "ddp/errors.h"
#include "train/collectives.h"
#include "train/collectives/call.h"
#include "train/zero_redundancy_optimizer.h"

#include <torch/torch.h>

#include <algorithm>
#include <cstring>
#include <sstream>
#include <utility>

namespace lockstep {

namespace {

namespace optim = torch::optim;
using StatePointer = std::unique_ptr<optim::OptimizerParamState>;

// Everything that LibTorch can save, as bytes.
template <class Save>
std::string saved(const Save& save) {
  torch::serialize::OutputArchive archive;
  save(archive);
  std::ostringstream bytes;
  archive.save_to(bytes);
  return bytes.str();
}

torch::serialize::InputArchive opened(const std::string& bytes, const at::Device& device) {
  std::istringstream stream(bytes);
  torch::serialize::InputArchive archive;
  archive.load_from(stream, device);
  return archive;
}

// With its tensors on `device`.
StatePointer moved(StatePointer state, const at::Device& device) {
  if (device.is_cpu()) return state;
  auto archive = opened(saved([&](auto& to) { state->serialize(to); }), device);
  state->serialize(archive);
  return state;
}

template <class Value>
void write_part(torch::serialize::OutputArchive& into, const std::string& name,
                const Value& value) {
  torch::serialize::OutputArchive part(into.compilation_unit());
  value.serialize(part);
  into.write(name, part);
}

// Saves the state in the form that LibTorch's optimizers load. They save parameters by their
// addresses; these are the places of parameters, so that equal states are equal bytes in every run.
void save_by_places(const optim::Optimizer& optimizer, torch::serialize::OutputArchive& archive) {
  torch::serialize::OutputArchive states(archive.compilation_unit());
  torch::serialize::OutputArchive groups(archive.compilation_unit());
  const auto count = [](std::size_t size) { return at::tensor(static_cast<std::int64_t>(size)); };
  groups.write("param_groups/size", count(optimizer.param_groups().size()));
  std::size_t place = 0;
  for (std::size_t i = 0; i < optimizer.param_groups().size(); ++i) {
    const auto& from = optimizer.param_groups()[i];
    torch::serialize::OutputArchive group(archive.compilation_unit());
    group.write("params/size", count(from.params().size()));
    for (std::size_t j = 0; j < from.params().size(); ++j, ++place) {
      const std::string key = std::to_string(place);
      group.write("params/" + std::to_string(j), c10::IValue(key));
      const auto state = optimizer.state().find(from.params()[j].unsafeGetTensorImpl());
      if (state != optimizer.state().end()) write_part(states, key, *state->second);
    }
    write_part(group, "options", from.options());
    groups.write("param_groups/" + std::to_string(i), group);
  }
  archive.write("pytorch_version", c10::IValue("1.5.0"));
  archive.write("state", states);
  archive.write("param_groups", groups);
}

at::Tensor padded(const std::string& text, std::int64_t length) {
  at::Tensor bytes = at::zeros({length}, at::kByte);
  std::memcpy(bytes.data_ptr<std::uint8_t>(), text.data(), text.size());
  return bytes;
}

std::string text_of(const at::Tensor& bytes, std::int64_t length) {
  return {reinterpret_cast<const char*>(bytes.const_data_ptr<std::uint8_t>()),
          static_cast<std::size_t>(length)};
}

void take_states(optim::Optimizer& from, optim::Optimizer& to) {
  for (auto& [parameter, state] : from.state()) to.state()[parameter] = std::move(state);
}

}  // namespace

// States travel to one rank alone, as LibTorch's optimizers load them, which is all that is known
// of them here.
void ZeroRedundancyOptimizer::consolidate_state_dict(int to) {
  ProgramCall call(group_, "ZeroRedundancyOptimizer::consolidate_state_dict", {});
  call.check_rank("the rank that receives", to);
  call.agree();
  const std::string mine = saved([&](auto& archive) { save_by_places(*local_, archive); });
  const auto lengths =
      call.communicator().gather(at::full({1}, static_cast<std::int64_t>(mine.size()), at::kLong),
                                 call.name() + ", sizes of states");
  std::int64_t longest = 0;
  for (const at::Tensor& each : lengths) longest = std::max(longest, each.item<std::int64_t>());
  const std::vector<at::Tensor> states =
      gather(group_, padded(mine, longest), to, {.name = "states of a sharded optimizer"});
  if (group_->getRank() != to) return;
  auto all = whole();
  for (std::size_t rank = 0; rank < states.size(); ++rank) {
    const auto part = make_(part_of(static_cast<int>(rank), local_->param_groups()));
    auto archive = opened(text_of(states[rank], lengths[rank].item<std::int64_t>()), at::kCPU);
    part->load(archive);
    take_states(*part, *all);
  }
  consolidated_ = std::move(all);
}

optim::Optimizer& ZeroRedundancyOptimizer::consolidated() {
  if (!consolidated_)
    throw UsageError("ZeroRedundancyOptimizer::consolidated: rank " +
                     std::to_string(group_->getRank()) +
                     " does not have the state of all ranks; call consolidate_state_dict(" +
                     std::to_string(group_->getRank()) + ") on every rank after the last step");
  return *consolidated_;
}

std::unique_ptr<optim::Optimizer> ZeroRedundancyOptimizer::whole() const {
  return make_(part_of(std::nullopt, local_->param_groups()));
}

void ZeroRedundancyOptimizer::load_state_dict(std::unique_ptr<optim::Optimizer> whole) {
  const auto refuse = [](const std::string& reason) {
    throw UsageError("ZeroRedundancyOptimizer::load_state_dict: " + reason);
  };
  if (!whole) refuse("the optimizer is null");
  if (class_of(*whole) != class_of(*local_))
    refuse("the optimizer is a " + class_of(*whole) + ", expected a " + class_of(*local_));
  const auto& given = whole->param_groups();
  const bool is_whole = std::ranges::equal(given, groups_, [](const auto& one, const Group& mine) {
    return std::ranges::equal(one.params(), mine, [](const at::Tensor& a, const Parameter& b) {
      return a.is_same(b.tensor);
    });
  });
  if (!is_whole) refuse("the optimizer has other parameters; load into what whole() returns");
  for (std::size_t i = 0; i < given.size(); ++i)
    local_->param_groups()[i].set_options(given[i].options().clone());
  local_->state().clear();
  consolidated_.reset();
  for (const Group& group : groups_) {
    for (const auto& [parameter, owner] : group) {
      const auto found = whole->state().find(parameter.unsafeGetTensorImpl());
      if (owner != group_->getRank() || found == whole->state().end()) continue;
      local_->state()[parameter.unsafeGetTensorImpl()] =
          moved(std::move(found->second), parameter.device());
    }
  }
}

}  // namespace lockstep
