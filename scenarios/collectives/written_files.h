// Files as torch.save writes them, made of values and not by a subject.
#pragma once

#include <ATen/core/ivalue.h>
#include <torch/torch.h>

#include <string>
#include <vector>

namespace lockstep::scenarios::collectives {

using FileDict = c10::impl::GenericDict;

FileDict empty_dict();
c10::IValue list_of(const std::vector<c10::IValue>& values);

constexpr int64_t kEpoch = int64_t{1} << 40, kStep = 300;  // more than 32 bits, and than 8

// A training in such a file: a model of the parameter w and the buffer b, an Adam of w with
// amsgrad that has stepped twice, an epoch, a step, and the state of a generator for each of so
// many ranks.
struct FileOfTraining {
  explicit FileOfTraining(int ranks);

  FileDict model, optimizer, group, state, lockstep;
  c10::IValue groups, generators;  // groups: undefined for a list of `group`
  FileDict rest;                   // epoch and step

  // The whole of it, with the parts as they are now, but for those that `without` names.
  FileDict whole(const std::string& without = "") const;
};

// The second one writes the pickle and its storages as they are.
void write_file(const std::string& path, const c10::IValue& value);
void write_archive(const std::string& path, const std::string& pickle,
                   const std::vector<at::Tensor>& storages);

}  // namespace lockstep::scenarios::collectives
