#include "train/checkpoint/progress.h"

#include "ddp/distributed_sampler.h"
#include "ddp/errors.h"

#include <torch/torch.h>

#include <memory>
#include <sstream>
#include <stdexcept>

namespace lockstep {

namespace {

using torch::serialize::InputArchive;
using torch::serialize::OutputArchive;

// The input archive of what an output archive holds.
InputArchive reopened(OutputArchive& archive) {
  std::stringstream bytes;
  archive.save_to(bytes);
  InputArchive input;
  input.load_from(bytes);
  return input;
}

InputArchive archive_of(const StateDict& state) {
  OutputArchive archive;
  for (const auto& each : state)
    archive.write(each.key().toStringRef(), at::full({}, each.value().toInt(), at::kLong),
                  /*is_buffer=*/true);
  return reopened(archive);
}

DistributedSampler sampler_like(const StateDict& state) {
  const auto number = [&](const char* name) { return state.at(name).toInt(); };
  return DistributedSampler(static_cast<std::size_t>(number("dataset_size")),
                            {.num_replicas = number("num_replicas"),
                             .rank = number("rank"),
                             .shuffle = number("shuffle") != 0,
                             .seed = static_cast<std::uint64_t>(number("seed")),
                             .drop_last = number("drop_last") != 0,
                             .pad = number("pad") != 0,
                             .constant_memory = number("constant_memory") != 0,
                             .allow_empty = true});
}

}  // namespace

StateDict state_of_sampler(const DistributedSampler& sampler,
                           const std::optional<std::size_t>& samples_used) {
  OutputArchive archive;
  if (samples_used) sampler.save(archive, *samples_used);
  if (!samples_used) sampler.save(archive);
  InputArchive input = reopened(archive);
  StateDict state = empty_dict();
  for (const std::string& key : input.keys()) {
    at::Tensor value;
    input.read(key, value, /*is_buffer=*/true);
    state.insert(key, value.item<std::int64_t>());
  }
  return state;
}

// A copy shares its progress with the sampler, so a sampler of its own tries the file.
Assignments assignments_from(const Entry& state, DistributedSampler& sampler) {
  const StateDict mine = state_of_sampler(sampler, std::nullopt);
  StateDict loaded = empty_dict();
  for (const auto& each : mine) {
    const Entry saved = state.at(each.key());
    const bool is_older = each.key() == "constant_memory" && !saved.exists();
    loaded.insert(each.key(), is_older ? 0 : saved.whole_number());
  }
  loaded.insert_or_assign("rank", mine.at("rank"));
  if (loaded.at("dataset_size").toInt() != mine.at("dataset_size").toInt())
    throw std::runtime_error(
        "its sampler has a dataset of " + std::to_string(loaded.at("dataset_size").toInt()) +
        " samples, expected " + std::to_string(mine.at("dataset_size").toInt()));
  const auto archive = std::make_shared<InputArchive>(archive_of(loaded));
  sampler_like(mine).load(*archive);
  return {[archive, &sampler] { sampler.load(*archive); }};
}

at::Tensor packed_states(const std::vector<at::Generator>& generators) {
  std::vector<at::Tensor> states;
  for (const at::Generator& each : generators) states.push_back(each.get_state().view({-1}));
  return at::cat(states);
}

std::vector<std::int64_t> sizes_of_states(const std::vector<at::Generator>& generators) {
  std::vector<std::int64_t> sizes;
  for (const at::Generator& each : generators) sizes.push_back(each.get_state().numel());
  return sizes;
}

c10::IValue unpacked_states(const std::vector<at::Tensor>& packed,
                            const std::vector<std::int64_t>& sizes) {
  c10::List<c10::IValue> ranks(c10::AnyType::get());
  for (const at::Tensor& of_rank : packed) {
    c10::List<c10::IValue> states(c10::AnyType::get());
    for (const at::Tensor& each : of_rank.split_with_sizes(sizes))
      states.push_back(for_archive(each));
    ranks.push_back(states);
  }
  return ranks;
}

Assignments assignments_from(const Entry& states, const std::vector<at::Generator>& generators,
                             int rank, int world_size) {
  const auto ranks = states.list();
  if (ranks.size() != static_cast<std::size_t>(world_size))
    throw std::runtime_error("its generators are those of " + std::to_string(ranks.size()) +
                             " ranks, expected " + std::to_string(world_size));
  const std::string what = states.what() + " of rank " + std::to_string(rank);
  const auto mine = Entry(ranks.get(static_cast<std::size_t>(rank)), what).list();
  if (mine.size() != generators.size())
    throw std::runtime_error(what + " are " + std::to_string(mine.size()) + ", expected " +
                             std::to_string(generators.size()));
  Assignments assignments;
  for (std::size_t i = 0; i < generators.size(); ++i) {
    const at::Tensor state = Entry(mine.get(i), what).tensor();
    at::Generator generator = generators[i];
    generator.clone().set_state(state);  // throws where it does not fit
    assignments.push_back([generator, state]() mutable { generator.set_state(state); });
  }
  return assignments;
}

}  // namespace lockstep
