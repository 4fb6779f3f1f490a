#include "train/checkpoint.h"

#include "ddp/base/characters.h"
#include "ddp/errors.h"
#include "train/checkpoint/archive.h"
#include "train/checkpoint/files.h"
#include "train/checkpoint/model_state.h"
#include "train/checkpoint/optimizer_state.h"
#include "train/checkpoint/progress.h"
#include "train/checkpoint/state.h"
#include "train/collectives/call.h"

#include <torch/torch.h>

#include <stdexcept>

namespace lockstep {

namespace {

constexpr std::int64_t kFormat = 1;

// "model, optimizer and epoch", of what the caller gave.
void compare_parts(ProgramCall& call, const std::string& path, const Checkpoint& checkpoint) {
  std::string parts;
  const auto add = [&](const char* name, bool is_given) {
    if (is_given) parts += (parts.empty() ? "" : ", ") + std::string(name);
  };
  add("model", checkpoint.model != nullptr);
  add("optimizer", checkpoint.optimizer != nullptr);
  add("sampler", checkpoint.sampler != nullptr);
  add("epoch", checkpoint.epoch != nullptr);
  add("step", checkpoint.step != nullptr);
  add("generators", !checkpoint.generators.empty());
  call.compare("the parts", parts.empty() ? "none" : parts);
  if (path.empty()) call.refuse("the path is empty");
  if (parts.empty()) call.refuse("the checkpoint has nothing in it");
  for (std::size_t i = 0; i < checkpoint.generators.size(); ++i)
    if (!checkpoint.generators[i].defined())
      call.refuse("generator " + std::to_string(i) + " is undefined");
  if (checkpoint.samples_used && checkpoint.sampler == nullptr)
    call.refuse("samples_used is " + std::to_string(*checkpoint.samples_used) +
                ", and there is no sampler");
  if (checkpoint.optimizer == nullptr) return;
  if (const auto problem = problem_with(*checkpoint.optimizer)) call.refuse(*problem);
}

// Compares the values that rank 0 writes for all.
void compare_progress(ProgramCall& call, const std::string& path, const Checkpoint& checkpoint,
                      StateDict& sampler) {
  if (checkpoint.epoch != nullptr) call.compare("the epoch", std::to_string(*checkpoint.epoch));
  if (checkpoint.step != nullptr) call.compare("the step", std::to_string(*checkpoint.step));
  if (!checkpoint.generators.empty() && call.is_possible())
    call.compare("the sizes of the generators' states",
                 c10::str(sizes_of_states(checkpoint.generators)));
  if (checkpoint.sampler == nullptr) return;
  call.refuse_if_it_throws(printable(path) + ": ", [&] {
    sampler = state_of_sampler(*checkpoint.sampler, checkpoint.samples_used);
    for (const auto& each : sampler)
      if (each.key().toStringRef() != "rank")
        call.compare("the sampler's " + each.key().toStringRef(),
                     std::to_string(each.value().toInt()));
  });
}

StateDict whole_state(const Checkpoint& checkpoint, const StateDict& sampler,
                      const std::vector<at::Tensor>& states_of_ranks) {
  StateDict all = empty_dict();
  StateDict lockstep = empty_dict();
  lockstep.insert("format", kFormat);
  all.insert("lockstep", lockstep);
  if (checkpoint.model != nullptr) all.insert("model", state_of_model(*checkpoint.model));
  if (checkpoint.optimizer != nullptr)
    all.insert("optimizer", state_of_optimizer(*checkpoint.optimizer));
  if (checkpoint.sampler != nullptr) all.insert("sampler", sampler);
  if (checkpoint.epoch != nullptr) all.insert("epoch", *checkpoint.epoch);
  if (checkpoint.step != nullptr) all.insert("step", *checkpoint.step);
  if (!states_of_ranks.empty())
    all.insert("generators",
               unpacked_states(states_of_ranks, sizes_of_states(checkpoint.generators)));
  return all;
}

// The entry by ours or Python's usual name.
Entry part_of(const Entry& all, const char* name, const char* long_name) {
  const Entry entry = all.at(name);
  const Entry other = all.at(long_name);
  return entry.exists() || !other.exists() ? entry : other;
}

// A dictionary of tensors alone is a state_dict.
bool is_bare_model(const Entry& all) {
  const auto dict = all.dict();
  for (const auto& [name, entry] : dict->entries)
    if (!entry.isTensor()) return false;
  return !dict->entries.empty();
}

void check_format(const Entry& all) {
  const Entry lockstep = all.at("lockstep");
  if (!lockstep.exists()) return;
  const std::int64_t format = lockstep.at("format").whole_number();
  if (format > kFormat)
    throw std::runtime_error("a newer Lockstep wrote it: its format is " + std::to_string(format) +
                             ", and this one reads up to " + std::to_string(kFormat));
}

void append(Assignments& all, Assignments more) {
  for (auto& each : more) all.push_back(std::move(each));
}

Assignments assignments_from(const Entry& all, const Checkpoint& checkpoint, int rank,
                             int world_size) {
  check_format(all);
  Assignments assignments;
  if (checkpoint.model != nullptr)
    append(assignments,
           assignments_from(
               is_bare_model(all) ? all.renamed("it") : part_of(all, "model", "model_state_dict"),
               *checkpoint.model));
  if (checkpoint.optimizer != nullptr)
    append(assignments, assignments_from(part_of(all, "optimizer", "optimizer_state_dict"),
                                         *checkpoint.optimizer));
  if (checkpoint.sampler != nullptr)
    append(assignments, assignments_from(all.at("sampler"), *checkpoint.sampler));
  if (!checkpoint.generators.empty())
    append(assignments,
           assignments_from(all.at("generators"), checkpoint.generators, rank, world_size));
  for (const auto& [name, number] :
       {std::pair("epoch", checkpoint.epoch), std::pair("step", checkpoint.step)}) {
    if (number == nullptr) continue;
    assignments.push_back([to = number, value = all.at(name).whole_number()] { *to = value; });
  }
  return assignments;
}

}  // namespace

void save_checkpoint(const std::string& path, const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                     const Checkpoint& checkpoint, const SaveOptions& options) {
  const CollectiveOptions waits{.name = {}, .timeout = options.timeout};
  ProgramCall call(group, "save_checkpoint", waits);
  StateDict sampler = empty_dict();
  compare_parts(call, path, checkpoint);
  compare_progress(call, path, checkpoint, sampler);
  call.compare("keep_last", std::to_string(options.keep_last));
  call.compare("is_best", options.is_best ? "true" : "false");
  if (options.keep_last < 1)
    call.refuse("keep_last is " + std::to_string(options.keep_last) + ", expected at least 1");
  call.agree();
  std::vector<at::Tensor> states;
  if (!checkpoint.generators.empty())
    states = call.communicator().gather(packed_states(checkpoint.generators),
                                        "the generators' states for save_checkpoint");
  ProgramCall written(group, "save_checkpoint", waits);
  if (call.communicator().rank() == 0) {
    written.refuse_if_it_throws(printable(path) + ": ", [&] {
      const StateDict all = whole_state(checkpoint, sampler, states);
      replace_file(
          path, [&](const Write& write) { write_archive(all, write); }, options.keep_last,
          options.is_best);
    });
  }
  written.agree();
}

void load_checkpoint(const std::string& path, const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                     const Checkpoint& checkpoint, const LoadOptions& options) {
  const CollectiveOptions waits{.name = {}, .timeout = options.timeout};
  ProgramCall call(group, "load_checkpoint", waits);
  compare_parts(call, path, checkpoint);
  call.agree();
  ProgramCall read(group, "load_checkpoint", waits);
  Assignments assignments;
  read.refuse_if_it_throws(printable(path) + ": ", [&] {
    const ReadArchive archive = read_archive(path);
    read.compare("the checksum of the file", std::to_string(archive.checksum));
    assignments = assignments_from(Entry(archive.value, "the file"), checkpoint, group->getRank(),
                                   group->getSize());
  });
  read.agree();
  for (const auto& assign : assignments) assign();
}

}  // namespace lockstep
