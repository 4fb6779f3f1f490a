#include "scenarios/collectives/written_files.h"

#include "scenarios/checkpoint/python_file.h"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/csrc/jit/serialization/pickler.h>

#include <fstream>

namespace lockstep::scenarios::collectives {

FileDict empty_dict() {
  return FileDict(c10::AnyType::get(), c10::AnyType::get());
}

c10::IValue list_of(const std::vector<c10::IValue>& values) {
  c10::List<c10::IValue> list(c10::AnyType::get());
  for (const auto& each : values) list.push_back(each);
  return list;
}

FileOfTraining::FileOfTraining(int ranks)
    : model(empty_dict()),
      optimizer(empty_dict()),
      group(empty_dict()),
      state(empty_dict()),
      lockstep(empty_dict()),
      rest(empty_dict()) {
  model.insert("w", torch::tensor({3.0, 4.5}, at::kDouble));
  model.insert("b", torch::tensor({5.0}, at::kDouble));
  group.insert("lr", 0.25);
  group.insert("betas", c10::ivalue::Tuple::create({0.5, 0.75}));
  group.insert("eps", 0.125);
  group.insert("weight_decay", 0.0625);
  group.insert("amsgrad", true);
  group.insert("maximize", false);
  group.insert("params", list_of({int64_t{0}}));
  state.insert("step", torch::tensor(2.0F));
  state.insert("exp_avg", torch::tensor({0.5, 1.5}, at::kDouble));
  state.insert("exp_avg_sq", torch::tensor({0.75, 2.5}, at::kDouble));
  state.insert("max_exp_avg_sq", torch::tensor({0.875, 3.5}, at::kDouble));
  lockstep.insert("format", int64_t{1});
  rest.insert("epoch", kEpoch);
  rest.insert("step", kStep);
  const auto generator = at::detail::createCPUGenerator(1).get_state();
  generators = list_of(std::vector<c10::IValue>(static_cast<size_t>(ranks), list_of({generator})));
}

FileDict FileOfTraining::whole(const std::string& without) const {
  FileDict all = rest.copy(), own = optimizer.copy(), states = empty_dict();
  states.insert(int64_t{0}, state);
  own.insert("state", states);
  own.insert("param_groups", groups.isNone() ? list_of({group}) : groups);
  all.insert("model", model);
  all.insert("optimizer", own);
  all.insert("generators", generators);
  all.insert("lockstep", lockstep);
  if (!without.empty()) static_cast<void>(all.erase(without));
  return all;
}

void write_file(const std::string& path, const c10::IValue& value) {
  std::string pickle;
  torch::jit::Pickler pickler(
      [&](const char* bytes, std::size_t size) { pickle.append(bytes, size); }, nullptr, nullptr,
      nullptr, nullptr, /*tag_aggregates=*/false);
  pickler.protocol();
  pickler.pushIValue(value);
  pickler.stop();
  std::vector<at::Tensor> storages;
  for (const auto& each : pickler.tensorData()) storages.push_back(each);
  write_archive(path, pickle, storages);
}

void write_archive(const std::string& path, const std::string& pickle,
                   const std::vector<at::Tensor>& storages) {
  std::ofstream(path, std::ios::binary) << checkpoint::archive_of(pickle, storages);
}

}  // namespace lockstep::scenarios::collectives
