#include "train/checkpoint/model_state.h"

#include "ddp/base/characters.h"

#include <torch/torch.h>

#include <algorithm>
#include <map>
#include <stdexcept>

namespace lockstep {

namespace {

using Tensors = std::map<std::string, at::Tensor>;

template <class Map>
void strip_prefix(Map& entries) {
  static const std::string kPrefix = "module.";
  const auto has_prefix = [](const auto& each) { return each.first.starts_with(kPrefix); };
  if (entries.empty() || !std::all_of(entries.begin(), entries.end(), has_prefix)) return;
  Map stripped;
  for (auto& [name, entry] : entries) stripped.emplace(name.substr(kPrefix.size()), entry);
  entries = std::move(stripped);
}

Tensors tensors_of(const torch::nn::Module& model) {
  Tensors tensors;
  for (const auto& all : {model.named_parameters(), model.named_buffers()})
    for (const auto& each : all)
      if (each.value().defined()) tensors.emplace(each.key(), each.value());
  strip_prefix(tensors);
  return tensors;
}

// A model may have a part that is called "module" itself, whose names keep the prefix.
std::map<std::string, c10::IValue> entries_of(const Entry& state, const Tensors& targets) {
  std::map<std::string, c10::IValue> entries;
  const auto all = state.dict();
  for (const auto& [name, entry] : all->entries) {
    if (!name.isString()) throw std::runtime_error(state.what() + " has a key that is no text");
    entries.emplace(name.toStringRef(), entry);
  }
  const bool are_of_the_model = std::all_of(entries.begin(), entries.end(), [&](const auto& each) {
    return targets.contains(each.first);
  });
  if (!are_of_the_model) strip_prefix(entries);
  return entries;
}

std::string text_of(const at::Tensor& tensor) {
  return std::string(c10::toString(tensor.scalar_type())) + " " + c10::str(tensor.sizes());
}

// The first names of `one` that `other` lacks: "'a', 'b' and 3 more".
template <class One, class Other>
std::string lacking(const One& one, const Other& other) {
  constexpr int kNamed = 3;
  std::string text;
  int count = 0;
  for (const auto& each : one) {
    if (other.contains(each.first)) continue;
    if (++count <= kNamed) text += (text.empty() ? "'" : ", '") + printable(each.first) + "'";
  }
  return count > kNamed ? text + " and " + std::to_string(count - kNamed) + " more" : text;
}

}  // namespace

StateDict state_of_model(const torch::nn::Module& model) {
  StateDict state = empty_dict();
  for (const auto& [name, tensor] : tensors_of(model)) state.insert(name, for_archive(tensor));
  return state;
}

Assignments assignments_from(const Entry& state, torch::nn::Module& model) {
  const Tensors targets = tensors_of(model);
  const auto entries = entries_of(state, targets);
  const std::string missing = lacking(targets, entries), extra = lacking(entries, targets);
  if (!missing.empty() || !extra.empty())
    throw std::runtime_error(state.what() +
                             (missing.empty() ? "" : " lacks " + missing + " of the model") +
                             (missing.empty() || extra.empty() ? "" : ", and") +
                             (extra.empty() ? "" : " has " + extra + ", which the model lacks"));
  Assignments assignments;
  for (const auto& [name, target] : targets) {
    const std::string quoted = "'" + printable(name) + "'";
    const at::Tensor source = Entry(entries.at(name), quoted).tensor();
    if (source.sizes() != target.sizes() || source.dtype() != target.dtype())
      throw std::runtime_error(quoted + " is " + text_of(source) + " in it, and " +
                               text_of(target) + " in the model");
    assignments.push_back([source, to = target] {
      const at::NoGradGuard no_grad;
      to.detach().copy_(source);
    });
  }
  return assignments;
}

}  // namespace lockstep
