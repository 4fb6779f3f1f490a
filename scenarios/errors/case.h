// The shape Erring: a small training, one mistake in it, and gradients that some passes lack.
#pragma once

#include "harness/cases/scenario.h"
#include "harness/worlds/options.h"
#include "scenarios/cases/parameters.h"
#include "scenarios/cases/words.h"

namespace lockstep::scenarios::errors {

// Ranks by number, modulo the world size; an empty list is all of them.
using Ranks = std::vector<int>;

enum class LackKind {
  unused,     // the parameter takes no part in forward
  left_out,   // the loss leaves out its output
  undefined,  // a function behind it passes no gradient on
};

// One parameter whose gradient some ranks lack in the passes of one step.
struct Lack {
  LackKind how = LackKind::unused;
  int step = 0;        // modulo the steps
  int parameter = 0;   // modulo their number
  bool local = false;  // in the step's local passes, instead of in its synchronised one
  Ranks ranks;
  auto operator<=>(const Lack&) const = default;
  static constexpr auto fields() {
    return std::tuple{field("how", &Lack::how), field("step", &Lack::step, between(0, 99)),
                      field("parameter", &Lack::parameter, between(0, 63)),
                      field("local", &Lack::local), field("ranks", &Lack::ranks, between(0, 1023))};
  }
};

// The mistake that some ranks make in the synchronised pass of one step, with one parameter.
enum class MistakeKind {
  none,
  throw_in_backward,  // its function throws
  in_the_loss,        // the loss uses the parameter itself, and forward does not
  dtype,              // its .grad is of another dtype
  sparse,             // its gradient is sparse, though no Embedding says so
  twice,              // a backward inside of backward brings its gradient once more
  throw_in_forward,   // its function throws there; these ranks skip the pass
  frozen,             // it is, before the forward
  converted,          // likewise
  strided,            // its strides become others, before the forward
  unhooked,           // the replica's hooks of autograd are removed before it
  registered,         // a further parameter, "late", is registered before the forward
  buffer_converted,   // the buffer is, before a forward that sends it
  reported,           // the rank reports a failure before the forward
  hook_loaded,        // the state of its hook, PowerSGD, is loaded before the forward; not where it
                      // has not averaged yet
  forward_in_backward,  // its function calls the replica
  forward_twice,        // the forward is made twice, and its first output is dropped: the rank has
                        // left out a backward, and makes one more; without a buffer
  skipped,              // the rank leaves out the whole step
  late,                 // it begins once its peers have given up waiting for it; not all ranks
  registered_buffer,    // a submodule with a buffer, "late_part.late", is registered before the
                        // forward
  registered_module,    // likewise with a parameter
};

struct Mistake {
  MistakeKind kind = MistakeKind::none;
  int step = 0, parameter = 0;  // as a Lack's
  Ranks ranks;
  auto operator<=>(const Mistake&) const = default;
  static constexpr auto fields() {
    return std::tuple{field("kind", &Mistake::kind), field("step", &Mistake::step, between(0, 99)),
                      field("parameter", &Mistake::parameter, between(0, 63)),
                      field("ranks", &Mistake::ranks, between(0, 1023))};
  }
};

// A call after an error that ended the training, before the ranks begin anew.
enum class Attempt {
  forward,
  local_forward,  // inside no_sync
  forward_without_gradients,
  join,
  update,  // update_trainable_parameters
  check,   // whether the last pass has ended
  bare,    // forward and backward of the model itself, which need no peer
};

enum class Clears { none, zero, own, nothing };

// Parameters "w0", "w1", ... do not learn. Each has an output of its own: the parameter times a
// whole number, which is so its gradient, everywhere.
struct Erring {
  WorldSpec world;
  int steps = 1;
  Mistake mistake;
  std::vector<Lack> lacks;
  std::vector<Attempt> attempts;  // of ranks whose waits ended with a peer's error
  std::vector<int> sizes;  // the elements of each parameter; empty: one parameter of one element
  int local_passes = 0;    // inside no_sync, before the synchronised one of each step
  Clears clears = Clears::none;  // gradients before each step: to none, to zero, to a number that
                                 // each rank has for itself, not at all
  bool order_by_rank = false;    // rank r runs parameter r first
  bool buffer = false;           // one that each forward counts
  bool embedding = false;        // each forward begins with one, whose gradients are sparse
  bool hook = false;             // a communication hook averages, the plain one
  bool skips_before = false;     // all ranks' forwards throw and are skipped before the mistake
  bool updates_before = false;   // before a registration that is the mistake all ranks register a
                                 // parameter, "early", and call update_trainable_parameters
  WrapOptions options;
  Dtype dtype = Dtype::float32;
  uint64_t seed = 0;
  auto operator<=>(const Erring&) const = default;
  static constexpr auto fields() {
    return std::tuple{field("world", &Erring::world),
                      field("steps", &Erring::steps, between(1, 4)),
                      field("mistake", &Erring::mistake),
                      field("lacks", &Erring::lacks),
                      field("attempts", &Erring::attempts),
                      field("sizes", &Erring::sizes, at_most(8, between(1, 64))),
                      field("local_passes", &Erring::local_passes, between(0, 2)),
                      field("clears", &Erring::clears),
                      field("order_by_rank", &Erring::order_by_rank),
                      field("buffer", &Erring::buffer),
                      field("embedding", &Erring::embedding),
                      field("hook", &Erring::hook),
                      field("skips_before", &Erring::skips_before),
                      field("updates_before", &Erring::updates_before),
                      field("options", &Erring::options),
                      field("dtype", &Erring::dtype, kSingleOrDouble, Cost::numbers),
                      field("seed", &Erring::seed, {}, Cost::numbers)};
  }
};

// How long a rank waits for a peer where some are late.
inline constexpr int64_t kTimeoutMs = 2000;

std::string name_of(size_t parameter);

bool is_among(const Ranks& ranks, int rank, int world_size);

// The text of what a rank throws or reports: "planted in w2 of rank 1".
std::string planted(size_t parameter, int rank);

bool is_of_all_ranks(const Erring& c);

// True if each synchronised forward sends the buffer.
bool sends_buffer(const Erring& c);

// True if this rank makes the mistake in this step; about which parameter.
bool errs(const Erring& c, int step, int rank);

// True if the numbers of the ranks' steps differ from here on, until they begin anew.
bool ranks_part(const Erring& c, int step);
size_t mistaken_parameter(const Erring& c);

// True for a mistake that registers something.
bool registers(MistakeKind kind);

// Why the ranks do not skip a forward, or update, before this mistake; empty where they can.
std::string why_nothing_may_come_before(const Erring& c);

// After the step of such a mistake all ranks begin anew: frozen ... late.
bool begins_anew(const Erring& c);
// Its peers wait for collectives that a mistaken rank does not issue.
bool leaves_peers_waiting(const Erring& c);
// A rank whose waits end with a peer's error in the last step of its training.
bool is_left_waiting(const Erring& c, int step, int rank);
// Some ranks skip a step, so that their peers' last one has no partner.
bool goes_out_of_step(const Erring& c);

// How a rank's pass lacks the gradient of a parameter, if it does. The first of the list
// decides, but for a parameter with which this rank errs. Nothing lacks where ranks are out of
// step.
std::optional<LackKind> lack_of(const Erring& c, int step, int rank, size_t parameter, bool local);

// The order in which this rank runs the parameters.
std::vector<size_t> order_of(const Erring& c, int rank);

// The gradient of each element of a parameter in a pass; the last pass of a step is the
// synchronised one. Averages of it are whole numbers, also if they are averaged once more in each
// later step.
double coefficient(const Erring& c, int step, int pass, int rank, size_t parameter);

// The surplus of a gradient in a mistake that adds to it, and its value before a step that sets it.
double surplus(const Erring& c, int step, int rank, size_t parameter);
double own_number(const Erring& c, int step, int rank, size_t parameter);

}  // namespace lockstep::scenarios::errors
