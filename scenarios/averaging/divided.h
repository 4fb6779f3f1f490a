// The shape Divided: parameters with prescribed gradients, and an optimizer of them whose state is
// divided over the ranks.
#pragma once

#include "harness/cases/scenario.h"
#include "harness/worlds/optimizers.h"
#include "scenarios/cases/parameters.h"
#include "scenarios/cases/words.h"

namespace lockstep::scenarios::averaging {

// How gradients come to an end: the next ones take their place; the optimizer drops all, or fills
// all with zeros.
enum class Clears { replaces, drops, fills };

inline constexpr auto kRealOrComplex =
    one_of<Dtype::float32, Dtype::float64, Dtype::complex64, Dtype::complex128>;

struct Divided {
  WorldSpec world;
  int steps = 1;
  OptimizerKind optimizer = OptimizerKind::sgd;
  std::vector<int> sizes;     // elements of each parameter; empty: one of one element
  std::vector<Dtype> dtypes;  // of the parameters, read cyclically; empty: float32
  int groups = 1;             // param groups: parameter p is in group p modulo groups
  int late_group = 0;        // the last group comes before this step; 0: it is there from the start
  int slower = 0;            // before this step group 0 has half its learning rate; 0: never
  int resume = 0;            // before this step the state is saved and loaded; 0: never
  int resume_size = 1;       // in a world of so many ranks, at most all
  int saving_rank = 0;       // modulo the world's size
  bool has_trained = false;  // the optimizer that loads it has made a step with all parameters
  int lacking = 0;   // so many of three parameters have no gradient, other ones in each step
  int settings = 0;  // of the first group; each other group's are the next (settle())
  bool with_closure = false;         // which sets the gradients and returns a loss
  bool without_grad = false;         // steps are called where gradients are off
  Clears clears = Clears::replaces;  // between steps
  uint64_t seed = 0;
  auto operator<=>(const Divided&) const = default;
  static constexpr auto fields() {
    return std::tuple{field("world", &Divided::world),
                      field("steps", &Divided::steps, between(1, 30)),
                      field("optimizer", &Divided::optimizer,
                            one_of<OptimizerKind::sgd, OptimizerKind::momentum, OptimizerKind::adam,
                                   OptimizerKind::adamw, OptimizerKind::amsgrad,
                                   OptimizerKind::adagrad, OptimizerKind::rmsprop>),
                      field("sizes", &Divided::sizes, between(1, 4096)),
                      field("dtypes", &Divided::dtypes, kRealOrComplex, Cost::numbers),
                      field("groups", &Divided::groups, between(1, 8)),
                      field("late_group", &Divided::late_group, between(0, 30)),
                      field("slower", &Divided::slower, between(0, 30)),
                      field("resume", &Divided::resume, between(0, 30)),
                      field("resume_size", &Divided::resume_size, between(1, 1024)),
                      field("saving_rank", &Divided::saving_rank, between(0, 1024)),
                      field("has_trained", &Divided::has_trained),
                      field("lacking", &Divided::lacking, between(0, 2)),
                      field("settings", &Divided::settings, between(0, 3)),
                      field("with_closure", &Divided::with_closure),
                      field("without_grad", &Divided::without_grad),
                      field("clears", &Divided::clears),
                      field("seed", &Divided::seed, {}, Cost::numbers)};
  }
};

using Tensors = std::vector<at::Tensor>;

// AMSGrad takes the larger of two numbers, so its parameters are real where others are complex.
at::ScalarType dtype_of(const Divided& c, size_t p);

// A row of numbers; of complex ones, their parts.
at::Tensor parts_of(const at::Tensor& tensor);

// Counts what exists in a step: param groups, and ranks that train.
size_t group_count(const Divided& c);
size_t groups_in(const Divided& c, int step);
int ranks_in(const Divided& c, int step);
std::vector<int> first_ranks(int count);
bool has_late_group(const Divided& c);
bool resumes(const Divided& c);

// Parameter 0 has one in each step.
bool has_gradient(const Divided& c, int step, size_t p);

// One of LibTorch's optimizers, and how many numbers it keeps for each element of a parameter.
std::unique_ptr<torch::optim::Optimizer> made(OptimizerKind kind, const ParamGroups& groups);
int64_t numbers_kept(OptimizerKind optimizer);

// Sets what options hold beside the learning rate: 0 leaves all as it is; 1, 2 and 3, counted
// cyclically, are not the defaults, and differ from each other.
void settle(OptimizerKind kind, int settings, torch::optim::OptimizerOptions& options);

// Parameter p is in group p modulo `count`. Each group has half the learning rate of the one
// before, and other settings, unless `settings` is 0.
ParamGroups param_groups(OptimizerKind kind, const Tensors& parameters, size_t count, int settings);

// By rank: the elements that an optimizer keeps after a step, of the parameters that it has seen.
std::vector<int64_t> elements_kept(const Divided& c, int step);

// The same on every rank.
Tensors parameters_of(const Divided& c, const c10::Device& device);
void set_gradients(const Divided& c, int step, const Tensors& parameters);

// Group g, whose learning rate is its own; all that there are in a step.
torch::optim::OptimizerParamGroup group_of_parameters(const Divided& c, const Tensors& parameters,
                                                      size_t g);
ParamGroups groups_of(const Divided& c, int step, const Tensors& parameters);

}  // namespace lockstep::scenarios::averaging
