// Files of which one rank reads one that does not hold what it asks for.
#include "harness/rank/tensors.h"
#include "scenarios/collectives/loaded_files.h"
#include "scenarios/collectives/state_arguments.h"
#include "scenarios/collectives/written_files.h"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/torch.h>

#include <filesystem>
#include <fstream>
#include <memory>

namespace lockstep::scenarios::collectives {

namespace {

using Write = LoadedFiles::Write;

// Everything that is loaded into.
struct FileTarget : LoadTarget {
  Multiplied model;
  torch::optim::Adam optimizer{{model.parameters()}, torch::optim::AdamOptions(1)};
  int64_t epoch = 0, step = 0;
  at::Generator generator = at::detail::createCPUGenerator(2);

  TrainingState state() override {
    return {.model = &model,
            .optimizer = &optimizer,
            .epoch = &epoch,
            .step = &step,
            .generators = {generator}};
  }

  // All of it as numbers: of the generator the next one.
  at::Tensor numbers() override {
    const auto& options =
        static_cast<torch::optim::AdamOptions&>(optimizer.param_groups()[0].options());
    const auto [one, two] = options.betas();
    std::vector<at::Tensor> all;
    for (const auto& each : model.parameters()) all.push_back(each.detach());
    for (const auto& each : model.buffers()) all.push_back(each);
    all.push_back(torch::tensor({options.lr(), one, two, options.eps(), options.weight_decay(),
                                 static_cast<double>(options.amsgrad()), static_cast<double>(epoch),
                                 static_cast<double>(step)},
                                at::kDouble));
    for (const auto& [_, each] : optimizer.state()) {
      const auto& state = static_cast<torch::optim::AdamParamState&>(*each);
      all.push_back(torch::tensor({static_cast<double>(state.step())}, at::kDouble));
      all.push_back(state.exp_avg());
      all.push_back(state.exp_avg_sq());
      all.push_back(state.max_exp_avg_sq());
    }
    all.push_back(at::rand({1}, generator.clone(), at::TensorOptions(at::kDouble)));
    return at::cat(all);
  }
};

void write_right(const std::string& path, int ranks) {
  write_file(path, FileOfTraining(ranks).whole());
}

Refused read_from(const Write& write, const std::string& reason) {
  return refused_load(
      {.right = write_right, .wrong = write, .make = [] { return std::make_unique<FileTarget>(); }},
      reason);
}

// The right file after a change of its values.
Refused changed(const std::function<void(FileOfTraining&)>& change, const std::string& reason) {
  return read_from(
      [change](const std::string& path, int ranks) {
        FileOfTraining file(ranks);
        change(file);
        write_file(path, file.whole());
      },
      reason);
}

Refused left_out(const std::string& part, const std::string& reason) {
  return read_from([part](const std::string& path,
                          int ranks) { write_file(path, FileOfTraining(ranks).whole(part)); },
                   reason);
}

Refused group_without(const std::string& key) {
  return changed([key](FileOfTraining& file) { static_cast<void>(file.group.erase(key)); },
                 "it lacks '" + key + "' of param group 0");
}

const std::string kState = "0 of 'state' of 'optimizer' of the file";

Refused state_without(const std::string& key) {
  return changed([key](FileOfTraining& file) { static_cast<void>(file.state.erase(key)); },
                 "it lacks '" + key + "' of " + kState);
}

Refused group_with(const std::string& key, const c10::IValue& value, const std::string& reason) {
  return changed([key, value](auto& file) { file.group.insert_or_assign(key, value); }, reason);
}

Refused state_with(const std::string& key, const c10::IValue& value, const std::string& problem) {
  return changed([key, value](auto& file) { file.state.insert_or_assign(key, value); },
                 "'" + key + "' of " + kState + problem);
}

Refused model_with(const c10::IValue& key, const c10::IValue& value, const std::string& reason) {
  return changed([key, value](auto& file) { file.model.insert_or_assign(key, value); }, reason);
}

void write_bytes(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

// The first half of the right file.
void write_torn(const std::string& path, int ranks) {
  write_right(path, ranks);
  std::filesystem::resize_file(path, std::filesystem::file_size(path) / 2);
}

}  // namespace

std::optional<Refused> refused_file(const Disagreeing& c) {
  using enum Argument;
  const int ranks = c.world.size;
  const auto renamed = [](FileOfTraining& file) {
    file.model.insert("v", file.model.at("w"));
    static_cast<void>(file.model.erase("w"));
  };
  const auto nothing = [](const std::string& /*path*/, int /*ranks*/) {};
  switch (c.argument) {
    case missing_file:
      return read_from(nothing, "No such file or directory");
    case file_of_another_kind:
      return read_from([](auto& path, int) { write_bytes(path, "not a zip archive"); },
                       "it is no file of torch.save or save_checkpoint, which are zip archives");
    case torn_file:
      return read_from(write_torn, "it is torn or damaged (the end of its directory is missing)");
    case file_of_another_writer:
      return read_from([](auto& path, int) { torch::save(numbers(2), path); },
                       "it is no file of torch.save or save_checkpoint (one of torch::save, "
                       "perhaps, which torch::load reads)");
    case newer_file:
      return changed([](auto& file) { file.lockstep.insert_or_assign("format", int64_t{2}); },
                     "a newer Lockstep wrote it: its format is 2, and this one reads up to 1");
    case file_without_epoch:
      return left_out("epoch", "it lacks 'epoch' of the file");
    case file_without_optimizer:
      return left_out("optimizer", "it lacks 'optimizer' of the file");
    case file_without_model:
      return left_out("model", "it lacks 'model' of the file");
    case file_of_another_model:
      return changed(renamed,
                     "'model' of the file lacks 'w' of the model, and has 'v', which the model "
                     "lacks");
    case file_of_another_shape:
      return model_with("w", numbers(3), "'w' is Double [3] in it, and Double [2] in the model");
    case file_of_another_dtype:
      return model_with("b", numbers(1, at::kFloat),
                        "'b' is Float [1] in it, and Double [1] in the model");
    case file_of_numbers:
      return model_with("w", 2.0, "'w' is a Double, expected a tensor");
    case file_of_numbered_tensors:
      return model_with(int64_t{3}, numbers(1), "'model' of the file has a key that is no text");
    case file_of_odd_keys:
      return model_with(1.5, numbers(1), "a key in it is neither a text nor a whole number");
    case file_of_adamw:
      return group_with("decoupled_weight_decay", true, "its optimizer is AdamW, expected Adam");
    case file_that_maximizes:
      return group_with("maximize", true,
                        "'maximize' of param group 0 is True, which LibTorch's optimizers cannot");
    case file_of_more_parameters:
      return group_with("params", list_of({int64_t{0}, int64_t{1}}),
                        "param group 0 has 2 parameters, expected 1");
    case file_of_three_betas:
      return group_with("betas", c10::ivalue::Tuple::create({0.5, 0.75, 0.5}),
                        "'betas' of param group 0 are not two");
    case file_of_a_number_for_a_flag:
      return group_with("amsgrad", int64_t{1},
                        "'amsgrad' of param group 0 is a Int, expected True or False");
    case file_of_a_text_for_a_number:
      return group_with("lr", "0.25", "'lr' of param group 0 is a String, expected a number");
    case file_of_more_groups:
      return changed(
          [](auto& file) {
            file.groups = list_of({file.group, file.group});
          },
          "its optimizer has 2 param groups, expected 1");
    case file_of_no_list:
      return changed([](auto& file) { file.groups = file.group; },
                     "'param_groups' of 'optimizer' of the file is a Dict, expected a list");
    case file_without_rate:
      return group_without("lr");
    case file_without_betas:
      return group_without("betas");
    case file_without_eps:
      return group_without("eps");
    case file_without_weight_decay:
      return group_without("weight_decay");
    case file_without_amsgrad:
      return group_without("amsgrad");
    case file_without_count:
      return state_without("step");
    case file_without_first_average:
      return state_without("exp_avg");
    case file_without_second_average:
      return state_without("exp_avg_sq");
    case file_of_half_a_step:
      return state_with("step", torch::tensor(1.5F), " is 1.500000, expected a whole number");
    case file_of_two_counts:
      return state_with("step", numbers(2), " is a Tensor, expected a number");
    case file_of_another_state:
      return state_with("exp_avg", numbers(3),
                        " is Double [3], expected the parameter's Double [2]");
    case file_of_more_ranks:
      return changed(
          [ranks](auto& file) { file.generators = FileOfTraining(ranks + 1).generators; },
          "its generators are those of " + std::to_string(ranks + 1) + " ranks, expected " +
              std::to_string(ranks));
    case file_of_fewer_generators:
      return changed(
          [ranks](auto& file) {
            file.generators =
                list_of(std::vector<c10::IValue>(static_cast<size_t>(ranks), list_of({})));
          },
          "'generators' of the file of rank " + std::to_string(c.rank % ranks) +
              " are 0, expected 1");
    default:
      return {};
  }
}

TensorValue numbers_of_file(const Disagreeing& c, bool is_loaded) {
  FileTarget target;
  if (is_loaded) {
    const FileOfTraining file(c.world.size);
    const at::NoGradGuard no_grad;
    target.model.parameters()[0].copy_(file.model.at("w").toTensor());
    target.model.buffers()[0].copy_(file.model.at("b").toTensor());
    auto& options =
        static_cast<torch::optim::AdamOptions&>(target.optimizer.param_groups()[0].options());
    options.lr(0.25).betas({0.5, 0.75}).eps(0.125).weight_decay(0.0625).amsgrad(true);
    auto state = std::make_unique<torch::optim::AdamParamState>();
    state->step(2);
    state->exp_avg(file.state.at("exp_avg").toTensor());
    state->exp_avg_sq(file.state.at("exp_avg_sq").toTensor());
    state->max_exp_avg_sq(file.state.at("max_exp_avg_sq").toTensor());
    target.optimizer.state()[target.model.parameters()[0].unsafeGetTensorImpl()] = std::move(state);
    target.epoch = kEpoch;
    target.step = kStep;
    target.generator = at::detail::createCPUGenerator(1);
  }
  return value_of(target.numbers());
}

}  // namespace lockstep::scenarios::collectives
