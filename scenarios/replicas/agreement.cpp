#include "scenarios/replicas/agreement.h"

#include "harness/rank/tensors.h"

#include <algorithm>
#include <sstream>

namespace lockstep::scenarios::replicas {

namespace {

struct Stated {
  std::string subject, value;
};
using Statements = std::vector<Stated>;
using Words = std::vector<std::string>;

std::string quoted(const std::string& name) {
  return "'" + name + "'";
}

std::string in_brackets(const std::vector<int64_t>& numbers) {
  std::string text;
  for (const auto number : numbers) text += (text.empty() ? "" : ", ") + std::to_string(number);
  return "[" + text + "]";
}

std::string in_brackets(const std::vector<std::string>& names) {
  std::string text;
  for (const auto& name : names) text += (text.empty() ? "" : ", ") + quoted(name);
  return "[" + text + "]";
}

std::string truth(bool value) {
  return value ? "true" : "false";
}

std::string mebibytes(int64_t bytes) {
  std::ostringstream text;
  text.precision(17);
  text << static_cast<double>(bytes) / (1024.0 * 1024.0);
  return text.str();
}

// The first name among the compared ones that share this tensor.
std::string first_name_of_its_tensor(const Given& given, size_t tensor,
                                     const std::vector<size_t>& compared) {
  for (const auto each : compared)
    if (given.tensors[each].same_as == given.tensors[tensor].same_as)
      return given.tensors[each].name;
  return given.tensors[tensor].name;
}

void state_tensors(const Given& given, const std::string& kind, const std::vector<size_t>& listed,
                   Statements& all) {
  std::vector<size_t> compared;
  for (const auto each : listed)
    if (!is_ignored(given, each)) compared.push_back(each);
  all.push_back({"the number of " + kind + "s", std::to_string(compared.size())});
  size_t index = 0;
  for (const auto each : compared) {
    const auto& tensor = given.tensors[each];
    const auto of = " of " + kind + " " + quoted(tensor.name);
    all.push_back({"the name of " + kind + " " + std::to_string(index++), quoted(tensor.name)});
    all.push_back({"the shape" + of, in_brackets(shape_of(tensor))});
    all.push_back({"the dtype" + of, c10::toString(scalar_type(dtype_of(tensor)))});
    all.push_back({"the layout" + of, "strides " + in_brackets(strides_of(tensor))});
    const auto first = first_name_of_its_tensor(given, each, compared);
    all.push_back(
        {"the tensor" + of, first == tensor.name ? "one of its own" : "that of " + quoted(first)});
    if (kind != "parameter") continue;
    all.push_back({"requires_grad" + of, truth(requires_gradient(tensor))});
    const bool is_sparse = tensor.form.kind == TensorKind::embedding && tensor.form.sparse;
    all.push_back(
        {"the layout of the gradient of " + quoted(tensor.name), is_sparse ? "sparse" : "dense"});
  }
}

bool synchronises_buffers(const WrapOptions& options) {
  const auto& further = options.further;
  return further.forward_sync_buffers.value_or(
      further.broadcast_buffers.value_or(options.broadcast_buffers));
}

void state_options(const WrapOptions& options, Statements& all) {
  std::string caps = "[";
  for (const auto cap : options.bucket_caps_bytes) caps += " " + mebibytes(cap);
  Statements stated{{"init_sync", truth(options.init_sync)},
                    {"forward_sync_buffers", truth(synchronises_buffers(options))},
                    {"buffer_sync_lag", truth(options.buffer_sync_lag)},
                    {"check_replicas_every", std::to_string(options.further.check_replicas_every)},
                    {"broadcast_cap_mb", options.further.broadcast_cap_bytes == 0
                                             ? "250"
                                             : mebibytes(options.further.broadcast_cap_bytes)},
                    {"bucket_cap_mb",
                     options.bucket_cap_bytes == 0 ? "unset" : mebibytes(options.bucket_cap_bytes)},
                    {"bucket_cap_mb_list", caps + " ]"}};
  for (const auto& each : WrapOptions::kSwitches)
    stated.push_back({each.name, truth(options.*each.value)});
  stated.push_back({"parameters_and_buffers_to_ignore", in_brackets(options.ignored)});
  stated.push_back({"delay_all_reduce_named_params", in_brackets(options.delayed)});
  stated.push_back({"param_to_hook_all_reduce", quoted(options.delayed_until)});
  for (const auto& each : stated) all.push_back({"the option " + each.subject, each.value});
}

Statements statements_of(const Given& given) {
  Statements all;
  state_tensors(given, "parameter", parameters_of(given), all);
  state_tensors(given, "buffer", buffers_of(given), all);
  state_options(given.options, all);
  return all;
}

void find_wrong_options(const WrapOptions& options, std::vector<Words>& mistakes) {
  const auto& further = options.further;
  if (further.timeout_ms.value_or(1) <= 0) mistakes.push_back({"timeout is 0 ms"});
  if (further.forward_sync_buffers && further.broadcast_buffers &&
      further.forward_sync_buffers != further.broadcast_buffers)
    mistakes.push_back({"forward_sync_buffers and broadcast_buffers", "differ"});
  if (further.check_replicas_every < 0)
    mistakes.push_back({"check_replicas_every is " + std::to_string(further.check_replicas_every)});
  if (further.broadcast_cap_bytes < 0)
    mistakes.push_back(
        {"broadcast_cap_mb is " + mebibytes(further.broadcast_cap_bytes), "0 to 1e9"});
  if (options.bucket_cap_bytes < 0)
    mistakes.push_back({"bucket_cap_mb is " + mebibytes(options.bucket_cap_bytes), "0 to 1e9"});
  for (const auto cap : options.bucket_caps_bytes)
    if (cap < 0)
      mistakes.push_back({"a cap in bucket_cap_mb_list is " + mebibytes(cap), "0 to 1e9"});
  if (options.bucket_cap_bytes != 0 && !options.bucket_caps_bytes.empty())
    mistakes.push_back({"bucket_cap_mb and bucket_cap_mb_list are given"});
  if (options.skip_all_reduce_unused_params && !options.find_unused_parameters &&
      !options.static_graph)
    mistakes.push_back({"skip_all_reduce_unused_params", "find_unused_parameters or static_graph"});
  if (options.delayed.empty() != options.delayed_until.empty())
    mistakes.push_back({"delay_all_reduce_named_params and param_to_hook_all_reduce"});
}

void find_wrong_names(const Given& given, std::vector<Words>& mistakes) {
  const auto& options = given.options;
  const auto place_of = [&](const std::string& name) -> std::optional<size_t> {
    for (size_t i = 0; i < given.tensors.size(); ++i)
      if (given.tensors[i].name == name) return i;
    return {};
  };
  for (const auto& name : options.ignored)
    if (!place_of(name))
      mistakes.push_back({"parameters_and_buffers_to_ignore names " + quoted(name),
                          "neither a parameter nor a buffer"});
  const auto can_be_delayed = [&](const std::string& name) {
    const auto place = place_of(name);
    return place && !is_ignored(given, *place) && is_trained(given, *place);
  };
  for (const auto& name : options.delayed)
    if (!can_be_delayed(name))
      mistakes.push_back({"delay_all_reduce_named_params names " + quoted(name)});
  if (!options.delayed_until.empty() && !can_be_delayed(options.delayed_until))
    mistakes.push_back({"param_to_hook_all_reduce names " + quoted(options.delayed_until)});
}

void find_wrong_tensors(const Given& given, std::vector<Words>& mistakes) {
  bool trains = false;
  for (size_t i = 0; i < given.tensors.size(); ++i) {
    if (is_ignored(given, i)) continue;
    trains = trains || is_trained(given, i);
    const auto& tensor = given.tensors[i];
    // Under any of its names.
    std::vector<std::string> names;
    for (size_t other = 0; other < given.tensors.size(); ++other)
      if (given.tensors[other].same_as == tensor.same_as && !is_ignored(given, other))
        names.push_back(given.tensors[other].name);
    for (const auto& name : names) {
      if (tensor.memory == Memory::none) {
        mistakes.push_back({quoted(name), "meta device"});
        mistakes.push_back({quoted(name) + " on meta", "expected devices of one kind"});
      }
      if (tensor.memory == Memory::expanded)
        mistakes.push_back({quoted(name), "elements that share memory"});
    }
  }
  if (!trains) mistakes.push_back({"no parameter that requires a gradient"});
}

std::vector<Words> mistakes_of(const Given& given) {
  std::vector<Words> all;
  find_wrong_options(given.options, all);
  find_wrong_names(given, all);
  find_wrong_tensors(given, all);
  return all;
}

std::vector<Refusal::Value> values_at(const std::vector<Statements>& by_rank, size_t index) {
  std::vector<Refusal::Value> values;
  for (size_t rank = 0; rank < by_rank.size(); ++rank) {
    const auto& text = by_rank[rank].at(index).value;
    const auto known = std::find_if(values.begin(), values.end(),
                                    [&](const auto& each) { return each.text == text; });
    if (known == values.end())
      values.push_back({text, {static_cast<int>(rank)}});
    else
      known->ranks.push_back(static_cast<int>(rank));
  }
  return values;
}

}  // namespace

std::optional<Refusal> expected_refusal(const Differing& c) {
  Refusal refusal;
  std::vector<Statements> by_rank;
  bool all_can = true;
  for (int rank = 0; rank < c.world.size; ++rank) {
    const auto given = given_to(c, rank);
    refusal.mistakes.push_back(mistakes_of(given));
    all_can = all_can && refusal.mistakes.back().empty();
    by_rank.push_back(statements_of(given));
  }
  if (!all_can) return refusal;
  // Where lists are of unequal length their number, which comes first, differs.
  for (size_t i = 0; i < by_rank.front().size(); ++i) {
    refusal.values = values_at(by_rank, i);
    refusal.subject = by_rank.front()[i].subject;
    if (refusal.values.size() > 1) return refusal;
  }
  return {};
}

bool can_train(const Differing& c) {
  return mistakes_of(given_to_all(c)).empty();
}

}  // namespace lockstep::scenarios::replicas
