// The shape Resumed: a training that is saved on the way, and loaded into new objects.
#pragma once

#include "harness/cases/scenario.h"
#include "harness/worlds/subject.h"
#include "scenarios/cases/parameters.h"
#include "scenarios/cases/words.h"

namespace lockstep::scenarios::checkpoint {

struct Resumed {
  WorldSpec world;
  int steps = 2;
  int first_save = 1;  // after so many steps; then after each, so often:
  int saves = 1;
  int age = 0;   // what is loaded: the newest, or one of those before, which are kept too
  int best = 0;  // instead, where `loads_best`: the save that is declared best, from 0
  bool loads_best = false;
  OptimizerKind optimizer = OptimizerKind::sgd;
  int groups = 1;            // param groups: parameter p is in group p modulo groups
  int settings = 0;          // of the first group; each other group's are the next
  bool halves_rate = false;  // after every step, that of the first group
  int late = 0;              // so many steps pass before parameter 0 has a gradient
  bool drops_older = false;  // keeps only the newest up to that one
  // The numbers of epochs, steps and updates of an optimizer are so large that those that are
  // loaded are one more than this power of two, or 2^53, the largest; 0: they begin at 0.
  int count_log2 = 0;
  int prefetched = 0;           // so many samples are drawn ahead when it is saved
  bool two_generators = false;  // the mask takes numbers from another one too
  // At last this rank, modulo the world's size, saves, or loads, only once its peers have given up
  // waiting for it, as the timeout of that call says; -1: none.
  int late_rank = -1;
  bool late_to_load = false;
  bool wraps_first = false;  // before the checkpoint is loaded, not after it
  bool has_trained = false;  // the objects that load it have made a step, where they are wrapped
  bool broadcast_buffers = true;
  bool shuffle = false;
  int64_t length = 2;         // samples of the dataset
  int64_t batch_size = 1;     // of a rank
  std::vector<int> sizes;     // elements of each parameter; empty: one of one element
  std::vector<Dtype> dtypes;  // of the parameters, read cyclically; empty: float32
  uint64_t seed = 0;
  auto operator<=>(const Resumed&) const = default;
  static constexpr auto fields() {
    return std::tuple{field("world", &Resumed::world),
                      field("steps", &Resumed::steps, between(2, 30)),
                      field("first_save", &Resumed::first_save, between(1, 30)),
                      field("saves", &Resumed::saves, between(1, 8)),
                      field("age", &Resumed::age, between(0, 8)),
                      field("best", &Resumed::best, between(0, 8)),
                      field("loads_best", &Resumed::loads_best),
                      field("optimizer", &Resumed::optimizer,
                            one_of<OptimizerKind::sgd, OptimizerKind::momentum, OptimizerKind::adam,
                                   OptimizerKind::adamw, OptimizerKind::amsgrad>),
                      field("groups", &Resumed::groups, between(1, 8)),
                      field("settings", &Resumed::settings, between(0, 3)),
                      field("halves_rate", &Resumed::halves_rate),
                      field("late", &Resumed::late, between(0, 30)),
                      field("drops_older", &Resumed::drops_older),
                      field("count_log2", &Resumed::count_log2, between(0, 53)),
                      field("prefetched", &Resumed::prefetched, between(0, 1000)),
                      field("two_generators", &Resumed::two_generators),
                      field("late_rank", &Resumed::late_rank, between(-1, 63)),
                      field("late_to_load", &Resumed::late_to_load),
                      field("wraps_first", &Resumed::wraps_first),
                      field("has_trained", &Resumed::has_trained),
                      field("broadcast_buffers", &Resumed::broadcast_buffers),
                      field("shuffle", &Resumed::shuffle),
                      field("length", &Resumed::length, between(1, 10'000)),
                      field("batch_size", &Resumed::batch_size, between(1, 1000)),
                      field("sizes", &Resumed::sizes, between(1, 4096)),
                      field("dtypes", &Resumed::dtypes, kSingleOrDouble, Cost::numbers),
                      field("seed", &Resumed::seed, {}, Cost::numbers)};
  }
};

// The numbers of steps after which it is saved: at least one, and at least one step comes after.
int first_save(const Resumed& c);
int last_save(const Resumed& c);
int best_save(const Resumed& c);
int saves(const Resumed& c);
int age(const Resumed& c);   // of the loaded one, unless that is the best
int kept(const Resumed& c);  // saves, the newest and those before it

// The number with which a counter begins, so that it is the power of two where it is saved.
int64_t first_count(const Resumed& c);

// The number of steps that the loaded checkpoint has seen.
int steps_loaded(const Resumed& c);

bool has_trained(const Resumed& c);

int late_rank(const Resumed& c);  // the rank; -1: none

// The names of the records of a step.
constexpr const char *kSamples = "samples", *kMask = "mask", *kCount = "count", *kSeen = "seen",
                     *kRate = "learning rate", *kProgress = "epoch and step", *kUpdates = "updates";
std::vector<std::string> recorded_names(const Resumed& c);

class Counting;

size_t group_count(const Resumed& c);
bool has_late_parameter(const Resumed& c);

// Others differ from those of the case in all that a checkpoint holds.
enum class Objects { of_the_case, others };

// All that a training holds on one rank.
class Life {
 public:
  // Local.
  Life(const Resumed& c, RankContext& here, Objects objects);

  // Collective.
  void wrap();

  TrainingState state();

  // Local. Draws samples that a later step uses.
  void prefetch();

  // A loaded sampler continues with its next pass.
  void begin();

  // Collective. Trains one step, and records it under `phase`.
  void step(const std::string& phase);

  // The same before it is loaded: all parameters have gradients.
  void step_before_load();

 private:
  std::vector<int64_t> samples();
  std::vector<int64_t> rest_of_batch();
  at::Tensor mask();
  void update(const std::vector<int64_t>& drawn, const at::Tensor& mask, int first_parameter);
  void record(const std::vector<int64_t>& drawn, const at::Tensor& mask);

  const Resumed& case_;
  RankContext& here_;
  const std::shared_ptr<Counting> model_;
  const std::unique_ptr<Shard> sampler_;
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
  std::unique_ptr<Replica> replica_;
  at::Generator generator_;  // undefined unless there are two
  int64_t epoch_ = 0, step_ = 0;
  std::vector<int64_t> ahead_;  // samples drawn and not used
  int64_t used_ = 0;            // samples of this epoch
};

}  // namespace lockstep::scenarios::checkpoint
