// The shape PythonFile: a model, its optimizer and progress, in a file that Python has written.
#pragma once

#include "harness/cases/scenario.h"
#include "scenarios/cases/words.h"
#include "scenarios/checkpoint/python_file.h"

#include <torch/torch.h>

#include <memory>

namespace lockstep::scenarios::checkpoint {

// How a tensor lies in its storage: by rows, its last two axes swapped, behind others, or in the
// storage of the first tensor, where that has its dtype and number of elements.
enum class Layout { rows, transposed, behind, shared };

struct WrittenTensor {
  bool is_buffer = false;
  Dtype dtype = Dtype::float32;
  std::vector<int64_t> shape;
  Layout layout = Layout::rows;
  auto operator<=>(const WrittenTensor&) const = default;
  static constexpr auto fields() {
    return std::tuple{
        field("is_buffer", &WrittenTensor::is_buffer),
        field("dtype", &WrittenTensor::dtype,
              one_of<Dtype::float32, Dtype::float64, Dtype::float16, Dtype::bfloat16, Dtype::int64,
                     Dtype::int32, Dtype::int16, Dtype::int8, Dtype::uint8, Dtype::bool_,
                     Dtype::complex64, Dtype::complex128>),
        field("shape", &WrittenTensor::shape, between(0, 64)),
        field("layout", &WrittenTensor::layout)};
  }
};

// The argument of torch.save: model.state_dict(), or a dictionary that has it by this name.
enum class Around { nothing, model, model_state_dict };

// The mistake in the file.
enum class Damage {
  none,
  lacks_an_entry,
  has_another_entry,
  has_another_shape,
  has_another_dtype,
  holds_a_class,
  counts_a_fraction,
  lacks_a_group,
  lacks_a_state,
  has_a_state_of_another_shape,
  maximizes,
  is_of_another_optimizer,
  is_cut,
  is_missing,
  has_other_values
};

struct PythonFile {
  WorldSpec world;
  std::vector<WrittenTensor> tensors;  // none: a parameter without axes
  Around around = Around::nothing;
  bool has_prefix = false;      // names begin with "module.", as a DistributedDataParallel's do
  bool has_module = false;      // every second tensor is of a part of the model called "module"
  bool is_ordered = false;      // the state_dict is an OrderedDict with attributes
  bool has_parameters = false;  // that are of class Parameter, not tensors
  OptimizerKind optimizer = OptimizerKind::none;
  int groups = 1;         // param groups: parameter p is in group p modulo groups
  bool is_older = false;  // PyTorch 1 counted an optimizer's steps in ints, and had fewer settings
  int count_log2 = 0;     // epoch and step are around this power of two
  int protocol = 2;
  bool refers = true;  // the pickle refers to texts that it has, and does not repeat them
  Damage damage = Damage::none;
  int entry = 0;  // the tensor that the damage is about, modulo their number
  int rank = -1;  // the only rank whose file is damaged, modulo the world's size; -1: all of them
  uint64_t seed = 0;
  auto operator<=>(const PythonFile&) const = default;
  static constexpr auto fields() {
    return std::tuple{
        field("world", &PythonFile::world),
        field("tensors", &PythonFile::tensors),
        field("around", &PythonFile::around),
        field("has_prefix", &PythonFile::has_prefix),
        field("has_module", &PythonFile::has_module),
        field("is_ordered", &PythonFile::is_ordered),
        field("has_parameters", &PythonFile::has_parameters),
        field("optimizer", &PythonFile::optimizer,
              one_of<OptimizerKind::none, OptimizerKind::sgd, OptimizerKind::momentum,
                     OptimizerKind::adam, OptimizerKind::adamw, OptimizerKind::amsgrad>),
        field("groups", &PythonFile::groups, between(1, 4)),
        field("is_older", &PythonFile::is_older),
        field("count_log2", &PythonFile::count_log2, between(0, 62)),
        field("protocol", &PythonFile::protocol, between(2, 5)),
        field("refers", &PythonFile::refers),
        field("damage", &PythonFile::damage),
        field("entry", &PythonFile::entry, between(0, 63)),
        field("rank", &PythonFile::rank, between(-1, 63)),
        field("seed", &PythonFile::seed, {}, Cost::numbers)};
  }
};

// The tensors of the case, or that one parameter. Parameters have a floating dtype.
std::vector<WrittenTensor> tensors_of(const PythonFile& c);
std::string name_of_tensor(const PythonFile& c, size_t index);  // "w0", "module.w1"
bool has_rest(const PythonFile& c);  // progress, and an optimizer if the case has one
bool has_optimizer(const PythonFile& c);

// Where the case does not have what the damage is about, there is none.
Damage damage_of(const PythonFile& c);
int damaged_rank(const PythonFile& c);  // -1: all ranks

// The state of each parameter that the damage is about.
const char* damaged_state(const PythonFile& c);

// All that a file holds, with values of the case, or of objects made anew.
class PythonTraining {
 public:
  enum class Values { of_the_file, others, of_another_file };
  PythonTraining(const PythonFile& c, Values values);

  // As torch.save is given it.
  PythonObject object(Damage damage) const;

  torch::nn::Module& model() { return *model_; }
  torch::optim::Optimizer* optimizer() { return optimizer_.get(); }
  int64_t epoch = 0, step = 0;

  // Everything by name, for a record.
  std::vector<std::pair<std::string, at::Tensor>> recorded() const;

 private:
  PythonObject state_dict(Damage damage) const;
  PythonObject optimizer_state(Damage damage) const;
  PythonObject state_of(const at::Tensor& parameter, Damage damage) const;
  PythonObject settings_of(const torch::optim::OptimizerParamGroup& group, Damage damage) const;

  const PythonFile& case_;
  std::shared_ptr<torch::nn::Module> model_;
  std::vector<at::Tensor> tensors_, laid_out_;  // the model's, and as they lie in the file
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
};

std::vector<std::string> recorded_names(const PythonFile& c);

}  // namespace lockstep::scenarios::checkpoint
