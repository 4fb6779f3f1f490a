// The numbers of a ProgramSpec: what ranks feed to a forward, and what they record.
#pragma once

#include "scenarios/programs/actions.h"
#include "scenarios/programs/layers.h"

namespace lockstep::scenarios::programs {

// Each rank builds its models from another seed, of which rank 0's counts; without init_sync from
// the same one.
inline uint64_t build_seed(const ProgramSpec& c, int rank) {
  return c.seed * 1024 + static_cast<uint64_t>(c.options.init_sync ? rank : 0);
}

// The input of the forward of an action: whole numbers from -3 to 3 without zero, float64.
at::Tensor input_of(const ProgramSpec& c, const Action& action, int rank, int64_t count);

Call call_of(const ProgramSpec& c, const Action& action, int rank);

// The factor of a forward's output in its loss. Averaging leaves whole numbers whole: it is a
// multiple of the sizes of groups to the power of the averages that a gradient can go through,
// unless the step says that it rounds.
double weight_of(const ProgramSpec& c, const std::vector<Action>& actions, const Action& action,
                 int rank);

// The sum of the outputs that are part of the loss.
at::Tensor sum_of_outputs(const ProgramSpec& c, const Action& action, int rank,
                          const std::vector<at::Tensor>& outputs);

// The penalty of a loss beside these outputs: the sum of the squares of their gradients for the
// model's squared weights.
at::Tensor penalty_of(const at::Tensor& output, const LayeredModel& model);

// The sum of the squares of this output's gradients for the input.
at::Tensor penalty_for_input(const at::Tensor& output, const at::Tensor& input);

// The factor of a parameter of which a loss has a term of its own, beside weight_of.
inline constexpr double kDirect = 2;

// The values that `load` copies into parameter number `p` of the model, and to each element of a
// buffer of a rank.
at::Tensor loaded_parameter(const ProgramSpec& c, const Action& action, size_t p,
                            at::IntArrayRef shape);
int64_t loaded_buffer(const ProgramSpec& c, const Action& action, size_t buffer, int rank);

// The form of a tensor's numbers, whether or not a rank has it.
struct Form {
  at::ScalarType dtype = at::kFloat;
  int64_t count = 1;  // elements
};
Form form_of(const at::Tensor& tensor);

// True if a rank drops its gradients where a join ends: what shadowing leaves in views is of no
// use.
bool clears_gradients(const ProgramSpec& c, const Action& finish, int rank);

// The factor by which `scale` multiplies gradients.
inline constexpr double kScale = 2;

bool is_shown_whole(const Form& form);

// A tensor of a form as it is recorded: whole if it is small; otherwise its first and last
// elements, and a checksum of all of them. An undefined one has no elements.
std::vector<Named> shown(const std::string& name, const at::Tensor& value, const Form& form);

}  // namespace lockstep::scenarios::programs
