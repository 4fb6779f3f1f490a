// The shape ProgramSpec: models, and the steps of a training as data, which every rank runs.
#pragma once

#include "harness/cases/scenario.h"
#include "harness/worlds/options.h"
#include "scenarios/cases/words.h"

namespace lockstep::scenarios::programs {

enum class LayerKind { vector, linear, transposed, embedding, channels_last, sparse };
enum class Use { once, twice, squared, custom, recomputed };
enum class Travels { with_others, last, not_ };
enum class Element { whole, nan, infinity, subnormal };

// A layer with parameters of `size` rows. `vector` [size] and `transposed` [3, size], which lies in
// memory by columns, are multiplied by inputs; `linear` is [size, 3] and a bias; `embedding` is
// [size, 2], or of one column where size is odd; a forward uses three rows of it, none where size
// is 0; so is `sparse`, which has sparse gradients; `channels_last` is [size, 2, 2, 2] in that
// layout. Of complex64 are vectors that are not squared, where no infinities are added.
struct LayerSpec {
  LayerKind kind = LayerKind::vector;
  int64_t size = 1;
  Dtype dtype = Dtype::float32;
  // twice: called twice; squared: with its own square as weight; custom: through an autograd
  // function of the model's own, whose gradients have gaps; recomputed: its forward runs once more
  // in backward, which brings its gradients; as once, where one pass would bring two.
  Use use = Use::once;
  FrozenPart frozen = FrozenPart::none;
  // When its gradients travel: last, once that of the first parameter is there, unless it is frozen
  // at first; or not, and its parameters are each rank's own.
  Travels travels = Travels::with_others;
  // Its weight is that of the layer before it; so are kind, size, dtype and `travels`.
  bool tied = false;
  // The value of the middle element of its gradients on every rank, or the number of which that is
  // a multiple; for a layer whose parameters are multiplied by inputs, and are real.
  Element element = Element::whole;
  auto operator<=>(const LayerSpec&) const = default;
  static constexpr auto fields() {
    return std::tuple{field("kind", &LayerSpec::kind),
                      field("size", &LayerSpec::size, between(0, 1 << 20)),
                      field("dtype", &LayerSpec::dtype,
                            one_of<Dtype::float32, Dtype::float64, Dtype::float16, Dtype::bfloat16,
                                   Dtype::complex64>),
                      field("use", &LayerSpec::use),
                      field("frozen", &LayerSpec::frozen),
                      field("travels", &LayerSpec::travels),
                      field("tied", &LayerSpec::tied),
                      field("element", &LayerSpec::element)};
  }
};

// The operation of a step.
enum class Op {
  forward,            // of the wrapped model, in training; its graph stays open
  backward,           // through the graph of open forward number `of`, counted cyclically
  backward_retained,  // the same, and the graph stays open
  backward_together,  // one pass through all open graphs of the model, the sum of their losses
  bare,               // forward and backward of the model itself, past its replica, on `ranks`
  evaluate,           // a forward in evaluation mode without gradients
  infer,              // a forward in inference mode
  throw_,             // a forward that throws on every rank and is caught
  zero_none,          // gradients are dropped
  zero_in_place,      // gradients are filled with zeros
  scale,              // gradients are doubled in place on `ranks`, as clipping changes them
  update,             // parameters move along their gradients
  update_if_finite,   // the same, on ranks on which all gradients are finite
  freeze,             // weight and bias of layer number `layer`; its replica, if any, takes note,
                      // unless that is forgotten: then its next synchronised forward is refused
  unfreeze,           // likewise
  load,   // other values are copied into parameters, the same on all ranks, and into buffers, each
          // rank's own
  renew,  // parameters and buffers get other memory, and keep their values
  convert,  // parameters are converted to another dtype and back
  unwrap,   // the replica is destroyed; until the next `wrap` the model has none
  wrap,     // a new replica of the model, after the end of the one it has; the ranks before `cut`
            // train together, and so do the others; 0: all ranks
  regroup,  // the replica continues with such a process group
  grad,  // autograd::grad of the loss of such a graph as backward's, for the parameters; it stays
         // open
  relayout,  // gradients get other strides on `ranks`, and keep their values
  join,      // a join of the replica begins; it ends at the next `finish`, or with the last step
  finish,    // the join ends, and with it the model's open graphs
  tell,      // the replica takes note of what was frozen and unfrozen, if anything was
  hold,      // a guard of the model's no_sync begins
  release,   // the guard number `of` ends
};

enum class Inputs { no, parameters, first };
enum class BucketHook { none, all_reduce, gathered };  // a communication hook
enum class Direct { no, beside, alone };

// One step of a program.
struct Step {
  Op op = Op::forward;
  int model = 0;                // counted cyclically
  int no_sync = 0;              // guards of this model's no_sync around the step
  bool inside_another = false;  // in no_sync of the next model
  int of = 0;
  bool thread = false;        // backward: on a thread of its own
  bool create_graph = false;  // backward, grad
  // backward: for which leaves: all; the parameters, by name; the first parameter alone.
  Inputs inputs = Inputs::no;
  // forward, backward_together: of all models, each rank in an order of its own where forwards
  // exchange nothing; one pass through the open graphs of all of them. Not in a join.
  bool everywhere = false;
  // forward, bare: the loss has a term of the squared gradients of layers that are squared; or it
  // is the sum of the squared gradients of its output for the input, without that output.
  bool penalty = false;
  bool penalty_alone = false;
  // forward, bare: the loss has a term of the first parameter itself, which forward uses as well
  // (beside) or not (alone); beside, where that would mean nothing.
  Direct direct = Direct::no;
  // forward, bare: bit o of a rank's number leaves its output o out of the loss.
  std::vector<int> left_out_of_loss;
  std::vector<int> unused;  // forward, bare: bit l of a rank's number leaves out its layer l
  int infinite = 0;         // forward, bare: bit r gives the loss of rank r an infinite weight
  // forward, bare: the loss of one rank alone has a weight, which its number of ranks does not
  // divide, so that their average rounds.
  bool rounds = false;
  int ranks = 15;          // bare, scale: bit r, counted cyclically, is rank r's
  int layer = 0;           // freeze, unfreeze: counted cyclically
  bool forgotten = false;  // freeze, unfreeze
  int cut = 0;             // wrap, regroup: counted cyclically
  // join: how many forwards of the model each rank makes until it is out of inputs, read
  // cyclically; empty: it never is.
  std::vector<int> forwards;
  // join: ranks that are out of inputs shadow the others, whose sums are divided by the world size
  // or, `live`, by the number of ranks that have inputs; or all ranks stop with an error; or it is
  // `disabled`, and no rank runs out of inputs.
  JoinKind uneven = JoinKind::world;
  auto operator<=>(const Step&) const = default;
  static constexpr auto fields() {
    return std::tuple{field("op", &Step::op),
                      field("model", &Step::model, between(0, 7)),
                      field("no_sync", &Step::no_sync, between(0, 3)),
                      field("inside_another", &Step::inside_another),
                      field("of", &Step::of, between(0, 15)),
                      field("thread", &Step::thread),
                      field("create_graph", &Step::create_graph),
                      field("inputs", &Step::inputs),
                      field("everywhere", &Step::everywhere),
                      field("penalty", &Step::penalty),
                      field("penalty_alone", &Step::penalty_alone),
                      field("direct", &Step::direct),
                      field("left_out_of_loss", &Step::left_out_of_loss, between(0, 15)),
                      field("unused", &Step::unused, between(0, (1 << 30) - 1)),
                      field("infinite", &Step::infinite, between(0, 15)),
                      field("rounds", &Step::rounds),
                      field("ranks", &Step::ranks, between(0, 15)),
                      field("layer", &Step::layer, between(0, 99)),
                      field("forgotten", &Step::forgotten),
                      field("cut", &Step::cut, between(0, 15)),
                      field("forwards", &Step::forwards, between(0, 15)),
                      field("uneven", &Step::uneven)};
  }
};

// Process-wide settings, applied by each rank while its program runs.
struct EnvironmentSpec {
  bool flushes_denormals = false;
  Dtype default_dtype = Dtype::float32;
  bool is_deterministic = false;         // algorithms, and memory that is filled before its use
  bool wraps_without_gradients = false;  // replicas are made with gradients disabled
  int threads = 1;                       // that share the work of an operation
  auto operator<=>(const EnvironmentSpec&) const = default;
  static constexpr auto fields() {
    return std::tuple{field("flushes_denormals", &EnvironmentSpec::flushes_denormals),
                      field("default_dtype", &EnvironmentSpec::default_dtype, kFloating),
                      field("is_deterministic", &EnvironmentSpec::is_deterministic),
                      field("wraps_without_gradients", &EnvironmentSpec::wraps_without_gradients),
                      field("threads", &EnvironmentSpec::threads, between(1, 4))};
  }
};

enum class BufferKind {
  float32,
  float64,
  int64,
  int32,
  bool_,
  uint8,
  int8,
  int16,
  float16,
  bfloat16,
  complex64,
  special
};

// Every model has a parameter of one element, the first, which each loss uses on every rank, and
// then the layers; the next model has them in an order that begins one later.
struct ProgramSpec {
  WorldSpec world;
  std::vector<Step> steps;
  std::vector<LayerSpec> layers;
  int outputs = 1;             // layer l is part of output l, counted cyclically
  bool nested = false;         // outputs are parts of a struct, not a list
  bool returns_first = false;  // behind the outputs the first parameter itself is returned
  int models = 1;              // each wrapped, on one group
  // The dtypes of each model's buffers; `special` holds infinities, zeros of both signs and the
  // like.
  std::vector<BufferKind> buffers;
  int ignored_buffers = 0;     // bit b: replicas leave buffer b alone, so it is each rank's own
  bool order_by_rank = false;  // rank r calls its layers from number r on
  WrapOptions options;
  BucketHook hook = BucketHook::none;
  EnvironmentSpec environment;
  int learning_rate_log2 = -2;
  uint64_t seed = 0;
  auto operator<=>(const ProgramSpec&) const = default;
  static constexpr auto fields() {
    return std::tuple{field("world", &ProgramSpec::world),
                      field("steps", &ProgramSpec::steps),
                      field("layers", &ProgramSpec::layers),
                      field("outputs", &ProgramSpec::outputs, between(1, 4)),
                      field("nested", &ProgramSpec::nested),
                      field("returns_first", &ProgramSpec::returns_first),
                      field("models", &ProgramSpec::models, between(1, 4)),
                      field("buffers", &ProgramSpec::buffers),
                      field("ignored_buffers", &ProgramSpec::ignored_buffers, between(0, 15)),
                      field("order_by_rank", &ProgramSpec::order_by_rank),
                      field("options", &ProgramSpec::options),
                      field("hook", &ProgramSpec::hook),
                      field("environment", &ProgramSpec::environment),
                      field("learning_rate_log2", &ProgramSpec::learning_rate_log2, between(-10, 4),
                            Cost::numbers),
                      field("seed", &ProgramSpec::seed, {}, Cost::numbers)};
  }
};

// The layers of model `model`, in its order; ties are resolved.
std::vector<LayerSpec> layers_of(const ProgramSpec& c, int model);

// The step with the fields that matter to its operation; the others as by default.
Step with_own_fields(const Step& step);

inline bool is_backward(Op op) {
  return op == Op::backward || op == Op::backward_retained || op == Op::backward_together;
}
inline bool is_zero(Op op) {
  return op == Op::zero_none || op == Op::zero_in_place;
}
inline bool is_update(Op op) {
  return op == Op::update || op == Op::update_if_finite;
}
inline bool is_freeze(Op op) {
  return op == Op::freeze || op == Op::unfreeze;
}

inline int model_of(const ProgramSpec& c, const Step& step) {
  return step.model % c.models;
}

// True if it is a step of all models.
inline bool is_everywhere(const ProgramSpec& c, const Step& step) {
  return step.everywhere && c.models > 1 &&
         (step.op == Op::forward || step.op == Op::backward_together);
}

// The layers that rank `rank` leaves out in this step, as bits.
uint32_t left_out(const ProgramSpec& c, const Step& step, int rank);

// The outputs that are no part of the loss of rank `rank`, as bits; the first always is.
uint32_t left_out_of_loss(const ProgramSpec& c, const Step& step, int rank);

inline bool has_bit(int bits, int rank) {
  return (bits >> (rank % 4)) % 2 == 1;
}

// Whether, for a case of these options, the graph behind outputs tells which parameters are unused.
bool finds_unused(const ProgramSpec& c);

// True if replicas leave buffer number `b` alone.
inline bool is_ignored(const ProgramSpec& c, size_t b) {
  return b < 4 && (c.ignored_buffers >> b) % 2 == 1;
}

// True if replicas send buffers at all.
bool sends_buffers(const ProgramSpec& c);

bool uses_all_layers(const ProgramSpec& c, const Step& step);

// The layers that each rank leaves out in this step.
std::vector<uint32_t> left_out_by_rank(const ProgramSpec& c, const Step& step);

// The ranks that average with each other where the world is cut before rank `cut`; 0: all of them.
std::vector<std::vector<int>> parts_of_world(const ProgramSpec& c, int cut);

// True if ranks that are out of inputs in this join shadow the others.
inline bool is_shadowed(const Step& join) {
  return join.uneven == JoinKind::world || join.uneven == JoinKind::live;
}

// How many forwards a rank makes in a join before it is out of inputs.
int forwards_in_join(const Step& join, int rank);

// The least multiple of all numbers that sums over ranks are divided by.
int64_t multiple_of_divisors(const ProgramSpec& c);

}  // namespace lockstep::scenarios::programs
