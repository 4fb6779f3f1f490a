// The shape Hooked: parameters with prescribed gradients, averaged by a communication hook.
#pragma once

#include "harness/cases/scenario.h"
#include "harness/history/history.h"
#include "harness/verdict/verdict.h"
#include "harness/worlds/options.h"
#include "reference/rounding.h"
#include "scenarios/cases/parameters.h"
#include "scenarios/cases/words.h"

#include <ATen/core/Tensor.h>

namespace lockstep::scenarios::hooks {

// A matrix, or a vector of `rows` elements where it has no columns. Columns that `depth` divides
// are two axes, the last of that length.
struct Size {
  int rows = 1;
  int columns = 0;
  int depth = 1;
  auto operator<=>(const Size&) const = default;
  static constexpr auto fields() {
    return std::tuple{field("rows", &Size::rows, between(1, 4096)),
                      field("columns", &Size::columns, between(0, 4096)),
                      field("depth", &Size::depth, between(1, 16))};
  }
};

// A pass before step 0, whose gradients nobody uses: there is none; all ranks' gradients are zeros,
// as of a loss that is masked, or infinite, as of one that was scaled too far.
enum class FirstPass { none, zeros, infinities };

// The loss is the sum over all parameters of parameter times prescribed gradient, so the gradient
// is that number, on each rank and in each step another one. Parameters do not learn.
struct Hooked {
  WorldSpec world;
  int steps = 1;
  HookOptions hook;
  std::vector<Size> sizes;  // of the parameters; empty: one of one element
  WrapOptions options;
  Dtype dtype = Dtype::float32;
  // exact: small multiples of the world size, whose averages no hook rounds but one that
  // approximates; real: any numbers between -1 and 1.
  Values values = Values::exact;
  // Real gradients are multiplied by 2^magnitude_log2; at most, their averages have a place in the
  // dtype in which they are sent, and their sums have none.
  int magnitude_log2 = 0;
  // Real gradients are the same in every step, of each rank a multiple of one matrix whose singular
  // values fall fast.
  bool is_constant = false;
  // Rank r has inputs in so many steps, read cyclically, in a join whose sums are divided by
  // `divisor`: the world's size, or the number of ranks that have inputs. Empty: in all, without a
  // join.
  std::vector<int> inputs;
  JoinKind divisor = JoinKind::world;
  // Before this step the hook is saved, and a new replica continues with what was saved; 0: none.
  int reload = 0;
  FirstPass first_pass =
      FirstPass::none;  // of PowerSGD that averages no pass first, without a join
  uint64_t seed = 0;
  auto operator<=>(const Hooked&) const = default;
  static constexpr auto fields() {
    return std::tuple{
        field("world", &Hooked::world),
        field("steps", &Hooked::steps, between(1, 1000)),
        field("hook", &Hooked::hook),
        field("sizes", &Hooked::sizes),
        field("options", &Hooked::options),
        field("dtype", &Hooked::dtype, kFloating, Cost::numbers),
        field("values", &Hooked::values, {}, Cost::numbers),
        field("magnitude_log2", &Hooked::magnitude_log2, between(-20, 127), Cost::numbers),
        field("is_constant", &Hooked::is_constant, {}, Cost::numbers),
        field("inputs", &Hooked::inputs, between(0, 1000)),
        field("divisor", &Hooked::divisor, one_of<JoinKind::world, JoinKind::live>),
        field("reload", &Hooked::reload, between(0, 1000)),
        field("first_pass", &Hooked::first_pass),
        field("seed", &Hooked::seed, {}, Cost::numbers)};
  }
};

std::vector<int64_t> shape_of(const Size& size);
Size size_of(const Hooked& c, size_t parameter);
int64_t elements_of(const Hooked& c);   // of all parameters
std::string name_of(size_t parameter);  // "w0"
at::ScalarType dtype_of(const Hooked& c);

bool has_join(const Hooked& c);
bool has_input(const Hooked& c, int step, int rank);
int steps_of(const Hooked& c);  // those in which some rank has an input
// The divisor of the sums of a step.
int divisor_in(const Hooked& c, int step);
bool has_uneven_inputs(const Hooked& c);

// A precondition: some rank has an input, a join refuses a static graph, and no hook is loaded in
// it.
std::string why_not_joined(const Hooked& c);

// The dtype in which gradients are sent, if the hook does not turn them into bytes.
Dtype sent_dtype(const Hooked& c);

bool compresses(HookKind kind);  // all gradients to 16 bits
bool has_several_axes(const Size& size);

// The largest `magnitude_log2` of which neither a hook nor the reference exceeds its numbers.
int magnitude_log2_max(const Hooked& c);
// Why gradients are larger than a dtype that they pass; empty where they are not.
std::string why_too_large(const Hooked& c);

int bits_of(Dtype dtype);
bool turns_into_bytes(const Hooked& c);

// The format in which ranks sum what a hook sends.
reference::Format format_of(const Hooked& c);

// Why exact gradients of a step are not so in what a hook sends, or scaled by the rounded
// reciprocal of their divisor, or summed; empty where they are.
std::string why_not_exact(const Hooked& c, int step);

// The gradient of a rank in a step, in the dtype and shape of the parameter; zeros where it has no
// input.
at::Tensor gradient_of(const Hooked& c, int step, int rank, size_t parameter);

// The same in the dtype in which it is sent, as float64; one for each rank.
std::vector<at::Tensor> received(const Hooked& c, int step, size_t parameter);

// A precondition: the two dtypes of 16 bits hold other numbers, so what is rounded to both is
// rounded twice; for such a case there is no reference.
std::string why_rounded_twice(const Hooked& c);

constexpr const char *kAfterBackward = "after backward", *kWrapped = "wrapped";

// The phase of the records of what PowerSGD keeps back.
constexpr const char* kLeftOut = "left out";

// In the phase kCounted ranks record how many elements PowerSGD has sent, and in place of how many,
// once the steps are over; nothing of a subject that does not say.
constexpr const char *kCounted = "counted", *kSent = "sent";

// True if a second training, of the first step that is approximated, follows, whose hook has the
// next random seed; its records are those of step `steps`.
bool has_another_seed(const Hooked& c);

// True if PowerSGD is saved and loaded before a step that there is. The same training without that
// may follow (conserved.h), whose gradients are recorded in the phase kNeverLoaded.
bool is_loaded(const Hooked& c);

bool has_first_pass(const Hooked& c);
constexpr const char* kNeverLoaded = "after backward, never loaded";

// In the phase "after backward" of a step each rank that has an input in it records its gradients,
// the others nothing(). In kLeftOut they record what a hook keeps; in the last step all do, after
// the join.
void program(const Hooked& c, RankContext& here);

Findings the_log_names_the_hook(const Hooked& c, const History& h);

TensorValue nothing(const Hooked& c);

// The gradients that ranks hold after a step; one without an input in it holds here those of the
// first one with an input.
Row held_after(const Hooked& c, const History& h, int step, size_t parameter);

}  // namespace lockstep::scenarios::hooks
