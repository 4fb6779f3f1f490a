// The shape Loop: a training loop as users write them, with an optimizer, a schedule of its
// learning rate, clipped gradients, and a loss that is scaled up until a gradient overflows.
#pragma once

#include "harness/cases/scenario.h"
#include "harness/worlds/subject.h"
#include "scenarios/cases/parameters.h"
#include "scenarios/cases/words.h"

namespace lockstep::scenarios::training {

// The step in which a gradient is infinite, on one rank; 0: none.
struct Overflow {
  int step = 0;
  int rank = 0;  // modulo the world's size
  auto operator<=>(const Overflow&) const = default;
  static constexpr auto fields() {
    return std::tuple{field("step", &Overflow::step, between(0, 30)),
                      field("rank", &Overflow::rank, between(0, 1024))};
  }
};

enum class RateSchedule { constant, steps, warmup };

enum class Clip { none, norm, value };

struct Loop {
  WorldSpec world;
  int steps = 1;
  int micro_batches = 1;  // in a step; all but the last are inside no_sync
  OptimizerKind optimizer = OptimizerKind::sgd;
  int groups = 1;    // param groups: parameter p is in group p modulo groups
  int settings = 0;  // of the first group; each other group's are the next
  RateSchedule schedule =
      RateSchedule::constant;  // StepLR, every two steps; or a linear warm-up by hand
  Clip clip = Clip::none;      // averaged gradients, by their norm or value by value
  bool scales_loss = false;    // and skips steps whose gradients are not finite
  Overflow overflow;           // where the loss is scaled
  bool zero_in_place = false;
  bool steps_in_backward =
      false;                  // then nothing clips gradients, scales the loss or zeroes in place
  std::vector<int> sizes;     // elements of each parameter; empty: one of one element
  std::vector<Dtype> dtypes;  // of the parameters, read cyclically; empty: float32
  int64_t bucket_cap_bytes = 0;
  bool gradient_as_bucket_view = false;
  int timed_passes = 0;  // the replica times one in so many; 0: its own number
  // Before this step the replica begins anew over the same ranks, as after an error; 0: never.
  int begins_anew = 0;
  uint64_t seed = 0;
  auto operator<=>(const Loop&) const = default;
  static constexpr auto fields() {
    return std::tuple{field("world", &Loop::world),
                      field("steps", &Loop::steps, between(1, 30)),
                      field("micro_batches", &Loop::micro_batches, between(1, 8)),
                      field("optimizer", &Loop::optimizer,
                            one_of<OptimizerKind::sgd, OptimizerKind::momentum, OptimizerKind::adam,
                                   OptimizerKind::adamw, OptimizerKind::amsgrad,
                                   OptimizerKind::adagrad, OptimizerKind::rmsprop>),
                      field("groups", &Loop::groups, between(1, 8)),
                      field("settings", &Loop::settings, between(0, 3)),
                      field("schedule", &Loop::schedule),
                      field("clip", &Loop::clip),
                      field("scales_loss", &Loop::scales_loss),
                      field("overflow", &Loop::overflow),
                      field("zero_in_place", &Loop::zero_in_place),
                      field("steps_in_backward", &Loop::steps_in_backward),
                      field("sizes", &Loop::sizes, between(1, 4096)),
                      field("dtypes", &Loop::dtypes, kSingleOrDouble, Cost::numbers),
                      field("bucket_cap_bytes", &Loop::bucket_cap_bytes, at_least(0)),
                      field("gradient_as_bucket_view", &Loop::gradient_as_bucket_view),
                      field("timed_passes", &Loop::timed_passes, between(0, 100)),
                      field("begins_anew", &Loop::begins_anew, between(0, 30)),
                      field("seed", &Loop::seed, {}, Cost::numbers)};
  }
};

std::string name_of(size_t p);  // "w0"

// float64, of all ranks: what rank `rank` begins with.
at::Tensor start_of(const Loop& c, int rank, size_t p);

size_t group_count(const Loop& c);
bool scales_loss(const Loop& c);
bool clips(const Loop& c);
bool begins_anew(const Loop& c);
bool overflows(const Loop& c);
bool overflows(const Loop& c, int step);

// The sum that a rank's batch adds to the gradients of all parameters, one after the other:
// float64, whole multiples of the world's size, and infinite in one element where the case
// overflows.
at::Tensor batch_of(const Loop& c, int step, int micro_batch, int rank);
// The average over the ranks.
at::Tensor whole_batch_of(const Loop& c, int step, int micro_batch);

// The part that a parameter of this value, float64, adds to its gradient in each micro-batch.
at::Tensor own_part(const Loop& c, const at::Tensor& value);

// The gradient of a parameter is its part of the batch and, as a whole number of multiples of the
// world's size, four times its value: a parameter that went wrong makes wrong gradients, and no sum
// of gradients rounds.
class Fed : public Model {
 public:
  Fed(const Loop& c, int rank);
  at::Tensor forward(const at::Tensor& input) override;

 private:
  std::vector<at::Tensor> weights_;
  const Loop& case_;
};

// Adds the gradients of a micro-batch's loss, times `scale`, to .grad.
using Backward = std::function<void(int step, int micro_batch, double scale)>;
struct Watch {
  // The gradients are there, unless a backward steps; the parameters are updated.
  std::function<void(int step)> before_update, after_update;
  // Called before the first step where a backward is to step: it does so from then on.
  std::function<void(std::shared_ptr<torch::optim::Optimizer>)> give_optimizer = nullptr;
};

// The loop, the same for one process and for one rank of many.
void train(const Loop& c, Fed& model, const Backward& backward, const Watch& watch);

}  // namespace lockstep::scenarios::training
