// Files whose pickles are written by hand: one as Python's torch.save writes it, and such as no
// writer writes.
#include "harness/rank/tensors.h"
#include "scenarios/collectives/loaded_files.h"
#include "scenarios/collectives/state_arguments.h"
#include "scenarios/collectives/written_files.h"

#include <torch/torch.h>

namespace lockstep::scenarios::collectives {

namespace {

const std::string kNul(1, '\0');

std::string one_byte(int64_t number) {
  return std::string(1, static_cast<char>(number));
}

std::string short_text(const std::string& value) {
  return "\x8c" + one_byte(static_cast<int64_t>(value.size())) + value;
}

std::string global_of(const std::string& module, const std::string& name) {
  return short_text(module) + short_text(name) + "\x93";
}

const std::string kOrderedDict = global_of("collections", "OrderedDict") + ")R";

const std::string kFromTheStart = "K" + kNul, kOneByOne = "K\1\x85";

// A row of so many numbers in the record data/KEY, of which `size` are said to be its own, from
// `offset` on, and `strides` apart.
std::string tensor_pickle(int key, int64_t count, int64_t size,
                          const std::string& kind = "DoubleStorage",
                          const std::string& offset = kFromTheStart,
                          const std::string& strides = kOneByOne) {
  return global_of("torch._utils", "_rebuild_tensor_v2") + "((" + short_text("storage") +
         "ctorch\n" + kind + "\n" + short_text(std::to_string(key)) + short_text("cpu") + "K" +
         one_byte(count) + "tQ" + offset + "K" + one_byte(size) + "\x85" + strides + "\x89" +
         kOrderedDict + "tR";
}

std::string parameter_pickle(const std::string& value) {
  return global_of("torch._utils", "_rebuild_parameter") + "(" + value + "\x88" + kOrderedDict +
         "tR";
}

// An OrderedDict of w, a parameter, and b, with the attribute that PyTorch gives it; of the memo
// both kinds of places are used.
std::string model_pickle(const std::string& w) {
  const std::string place = "\6" + kNul + kNul + kNul;
  return kOrderedDict + "\x94(" + short_text("w") + "q\5" + w + short_text("b") + "r" + place +
         tensor_pickle(1, 1, 1) + "u}" + short_text("_metadata") + "h\5s" + short_text("more") +
         "j" + place + "sb";
}

// The epoch is a number of 6 bytes, the step one of 2; a list comes item by item and at once.
std::string pickle_with(const std::string& w) {
  return "\x80\4\x95" + std::string(8, '\0') + "}(" + short_text("list") + "]K\1aM\1\1a(J" +
         std::string(4, '\1') + "G" + std::string(8, '\0') + "e" + short_text("model") +
         model_pickle(w) + short_text("epoch") + "\x8a\6" + std::string(5, '\0') + "\1" +
         short_text("step") + "M\x2c\1u.";
}

std::vector<at::Tensor> storages() {
  return {torch::tensor({3.0, 4.5}, at::kDouble), torch::tensor({5.0}, at::kDouble)};
}

struct PickleTarget : LoadTarget {
  Multiplied model;
  int64_t epoch = 0, step = 0;

  TrainingState state() override {
    return {.model = &model, .epoch = &epoch, .step = &step, .generators = {}};
  }
  at::Tensor numbers() override {
    const std::vector<double> progress{static_cast<double>(epoch), static_cast<double>(step)};
    return at::cat(
        {model.parameters()[0].detach(), model.buffers()[0], torch::tensor(progress, at::kDouble)});
  }
};

LoadedFiles::Write writes(const std::string& pickle) {
  return
      [pickle](const std::string& path, int /*ranks*/) { write_archive(path, pickle, storages()); };
}

Refused refused_bytes(const std::string& pickle, const std::string& reason) {
  return refused_load({.right = writes(pickle_with(parameter_pickle(tensor_pickle(0, 2, 2)))),
                       .wrong = writes(pickle),
                       .make = [] { return std::make_unique<PickleTarget>(); }},
                      reason);
}

// After the bytes with which a pickle begins.
Refused pickle(const std::string& rest, const std::string& reason) {
  return refused_bytes("\x80\2" + rest, reason);
}

Refused model_of(const std::string& w, const std::string& reason) {
  return refused_bytes(pickle_with(w), reason);
}

}  // namespace

std::optional<Refused> refused_pickle(const Disagreeing& c) {
  using enum Argument;
  constexpr const char* kBeyond = "a tensor in it reaches beyond its storage";
  switch (c.argument) {
    case pickle_that_ends:
      return pickle("X", "its end is missing");
    case pickle_of_nothing:
      return pickle(".", "its stack is empty");
    case pickle_without_items:
      return pickle("K\1\x86.", "its stack is empty");
    case pickle_without_a_mark:
      return pickle("]e.", "a mark is missing in it");
    case pickle_without_a_list:
      return pickle("N(Ne.", "a list is missing in it");
    case pickle_without_a_dictionary:
      return pickle("N(NNu.", "a dictionary is missing in it");
    case pickle_without_a_value:
      return pickle("}(K\1u.", "a key in it has no value");
    case pickle_that_refers_to_nothing:
      return pickle("h\7.", "it refers to what is not there");
    case pickle_of_another_protocol:
      return pickle("z.", "it has the unknown opcode 122");
    case pickle_that_calls:
      return pickle("cos\nsystem\n)R.",
                    "it holds a os.system, expected tensors, numbers, texts, lists, tuples and "
                    "dictionaries alone");
    case pickle_of_a_large_number:
      return pickle("\x8a\x9" + std::string(9, '\1') + ".",
                    "a whole number of more than 64 bits is in it");
    case pickle_that_changes_a_value:
      return pickle("]q" + kNul + "h" + kNul + "a.", "a value in it is changed after it was used");
    case tensor_beyond_its_storage:
      return model_of(tensor_pickle(0, 2, 3), kBeyond);
    case tensor_before_its_storage:
      return model_of(tensor_pickle(0, 2, 2, "DoubleStorage", "J" + std::string(4, '\xff')),
                      kBeyond);
    case tensor_of_fewer_strides:
      return model_of(tensor_pickle(0, 2, 2, "DoubleStorage", kFromTheStart, ")"), kBeyond);
    case tensor_of_a_missing_record:
      return model_of(tensor_pickle(2, 2, 2), "its record data/2 is missing or has another size");
    case tensor_of_another_length:
      return model_of(tensor_pickle(0, 3, 2), "its record data/0 is missing or has another size");
    case tensor_of_odd_numbers:
      return model_of(tensor_pickle(0, 2, 2, "QInt8Storage"),
                      "it holds a storage of an unknown kind, torch.QInt8Storage");
    default:
      return {};
  }
}

TensorValue numbers_of_pickle(bool is_loaded) {
  PickleTarget target;
  if (is_loaded) {
    const at::NoGradGuard no_grad;
    target.model.parameters()[0].copy_(storages()[0]);
    target.model.buffers()[0].copy_(storages()[1]);
    target.epoch = kEpoch;
    target.step = kStep;
  }
  return value_of(target.numbers());
}

}  // namespace lockstep::scenarios::collectives
