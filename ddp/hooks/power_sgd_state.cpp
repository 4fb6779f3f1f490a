// The state that PowerSgd keeps from pass to pass, in archives and on all ranks.
#include "ddp/consistency/equal_values.h"
#include "ddp/errors.h"
#include "ddp/power_sgd.h"

#include <torch/torch.h>

#include <algorithm>

namespace lockstep {

namespace {

template <class... Parts>
[[noreturn]] void refuse(const char* what, const Parts&... parts) {
  throw UsageError(c10::str("PowerSgd::", what, ": ", parts...));
}

// An entry of an archive that save() has written.
template <class Value, class... IsBuffer>
Value entry(torch::serialize::InputArchive& archive, const std::string& key,
            IsBuffer... is_buffer) {
  Value value;
  if (!archive.try_read(key, value, is_buffer...))
    refuse("load", "the archive has no '", key, "', so PowerSgd::save has not written it");
  return value;
}

}  // namespace

void PowerSgd::save(torch::serialize::OutputArchive& archive,
                    const torch::nn::Module& module) const {
  std::vector<std::string> names;
  std::size_t found = 0;
  for (const auto& parameter : module.named_parameters()) {
    const auto kept = kept_.find(parameter.value().unsafeGetTensorImpl());
    if (kept == kept_.end()) continue;
    ++found;
    const std::string number = std::to_string(names.size());
    names.push_back(parameter.key());
    const auto write = [&](const std::string& key, const at::Tensor& value) {
      archive.write(key + number, value.defined() ? value : at::empty({0}), /*is_buffer=*/true);
    };
    write("left_out_", kept->second.left_out);
    write("q_", kept->second.q);
  }
  if (found != kept_.size())
    refuse("save", "the hook has run on parameters that the module does not have");
  archive.write("names", c10::IValue(names));
  archive.write("passes", c10::IValue(passes_));
  archive.write("generator", generator_.get_state(), /*is_buffer=*/true);
}

void PowerSgd::check_fits(const std::string& name, const at::Tensor& parameter,
                          const Kept& kept) const {
  const std::int64_t rows = parameter.dim() > 0 ? parameter.size(0) : 1;
  const auto& left_out = kept.left_out;
  const auto& q = kept.q;
  if ((left_out.defined() && (left_out.dim() != 2 || left_out.size(0) != rows ||
                              left_out.numel() != parameter.numel())) ||
      (q.defined() && (q.dim() != 2 || q.size(0) * rows != parameter.numel())))
    refuse("load", "'", name, "' is ", parameter.sizes(),
           " in the module and another shape in the archive");
  if (const auto columns = columns_sent(rows, parameter.numel() / std::max<std::int64_t>(rows, 1));
      q.defined() && q.size(1) != columns)
    refuse("load", "'", name, "' is approximated by matrices of rank ", q.size(1),
           " in the archive, expected ", columns);
}

void PowerSgd::load(torch::serialize::InputArchive& archive, const torch::nn::Module& module) {
  const auto names = entry<c10::IValue>(archive, "names");
  const auto passes = entry<c10::IValue>(archive, "passes");
  const auto generator = entry<at::Tensor>(archive, "generator", /*is_buffer=*/true);
  if (!names.isList() || !passes.isInt())
    refuse("load", "PowerSgd::save has not written the archive");
  const auto parameters = module.named_parameters();
  std::map<const at::TensorImpl*, Kept> kept;
  const auto list = names.toListRef();
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string& name = list[i].toStringRef();
    const at::Tensor* const parameter = parameters.find(name);
    if (parameter == nullptr) refuse("load", "the module has no parameter '", name, "'");
    const auto read = [&](const std::string& key) {
      const auto value = entry<at::Tensor>(archive, key + std::to_string(i), /*is_buffer=*/true);
      return value.numel() == 0 ? at::Tensor() : value.to(parameter->device());
    };
    Kept one{.left_out = read("left_out_"), .q = read("q_")};
    check_fits(name, *parameter, one);
    kept[parameter->unsafeGetTensorImpl()] = std::move(one);
  }
  generator_.set_state(generator);
  passes_ = passes.toInt();
  kept_ = std::move(kept);
  is_loaded_ = true;
}

// Ranks with different states would send different numbers of elements, or approximate by different
// factors. So they compare, all in the same pass: a rank that compared in the pass behind its own
// load() alone would wait for peers that average. The part that was left out is each rank's own.
void PowerSgd::compare_states(HookCollectives& collectives, const at::Device& device) {
  if (!collectives.is_first_pass()) {
    if (!is_loaded_) return;
    throw UsageError(
        "a state of PowerSGD was loaded between two passes; after load() all ranks call "
        "update_process_group(), with the same group or another, and their next pass compares the "
        "states");
  }
  std::uint64_t digest = digest_of(generator_.get_state());
  for (const auto& [parameter, kept] : kept_)  // in no order that ranks share
    if (kept.q.defined()) digest += digest_of(kept.q);
  const auto own =
      at::tensor({passes_, static_cast<std::int64_t>(digest), std::int64_t{is_loaded_}}, at::kLong);
  std::vector<at::Tensor> states;
  for (const at::Tensor& each : collectives.all_gather(own.to(device)).wait_for_parts())
    states.push_back(each.cpu());
  const auto differing = std::find_if(states.begin(), states.end(), [&](const at::Tensor& state) {
    return !at::equal(state.slice(0, 0, 2), states.front().slice(0, 0, 2));
  });
  if (differing == states.end()) {
    is_loaded_ = false;
    return;
  }
  const auto passes_of = [](const at::Tensor& state) { return state[0].item<std::int64_t>(); };
  const auto was_loaded = [](const at::Tensor& state) { return state[2].item<bool>(); };
  if (std::any_of(states.begin(), states.end(), was_loaded))
    throw UsageError(c10::str(
        "the ranks hold different states of PowerSGD (passes so far: ", passes_of(states.front()),
        " on rank 0, ", passes_of(*differing), " on rank ", differing - states.begin(),
        "); every rank loads its file of one save, or none does"));
  begin_factors_anew(passes_of(*std::max_element(
      states.begin(), states.end(), [&](const at::Tensor& left, const at::Tensor& right) {
        return passes_of(left) < passes_of(right);
      })));
}

// A pass that failed had come farther on some ranks. What they have left out stays.
void PowerSgd::begin_factors_anew(std::int64_t passes) {
  passes_ = passes;
  generator_.set_current_seed(options_.random_seed + static_cast<std::uint64_t>(passes));
  for (auto& [parameter, kept] : kept_) kept.q = at::Tensor();
}

}  // namespace lockstep
