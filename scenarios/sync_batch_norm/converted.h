// A model of BatchNorm layers in containers and members, and what is done to it.
#pragma once

#include "harness/cases/scenario.h"
#include "harness/worlds/subject.h"
#include "scenarios/cases/words.h"

namespace lockstep::scenarios::sync_batch_norm {

inline constexpr double kMovingHalf = 0.5;  // the momentum of its layers

enum class Container { sequential, list, dict, member };

struct Place {
  Container in = Container::sequential;  // or a list, a dict, or a member of a class
  // True: of the subject's own class, as every member is; in a sequence it is LibTorch's.
  bool own = false;
  int axes = 1;  // behind the channels
  int channels = 1;
  FrozenPart frozen = FrozenPart::none;
  bool tracks = true;  // running statistics
  bool evaluates = false;
  int eps_log2 = -17;       // of what is added to the variance
  bool cumulative = false;  // running statistics are averages over all batches, without momentum
  Dtype dtype = Dtype::float32;
  auto operator<=>(const Place&) const = default;
  static constexpr auto fields() {
    return std::tuple{field("in", &Place::in),
                      field("own", &Place::own),
                      field("axes", &Place::axes, between(1, 3)),
                      field("channels", &Place::channels, between(1, 600)),
                      field("frozen", &Place::frozen),
                      field("tracks", &Place::tracks),
                      field("evaluates", &Place::evaluates),
                      field("eps_log2", &Place::eps_log2, between(-17, 4)),
                      field("cumulative", &Place::cumulative),
                      field("dtype", &Place::dtype, kSingleOrDouble)};
  }
};

enum class ConvertedAct { convert, revert, train, copy, turn, misfit };

// Acts: conversions, reversals, training steps, copies, turns, which puts layers in training into
// evaluation mode, and the others back, and forwards with an axis too many.
struct Converted {
  WorldSpec world;
  std::vector<ConvertedAct> acts;
  std::vector<Place> layers;  // empty: one
  // At last the model is converted with a timeout, and this rank, modulo the world's size, makes no
  // forward of the first layer until its peers have given up waiting for it; -1: none.
  int late = -1;
  auto operator<=>(const Converted&) const = default;
  static constexpr auto fields() {
    return std::tuple{field("world", &Converted::world),
                      field("acts", &Converted::acts, at_most(8, {})),
                      field("layers", &Converted::layers, at_most(8, {})),
                      field("late", &Converted::late, between(-1, 63))};
  }
};

int late_rank(const Converted& c);  // the rank; -1: none

// As the model has them.
std::vector<Place> layers_of(const Converted& c);

using ModulePtr = std::shared_ptr<torch::nn::Module>;

ModulePtr built(const Converted& c, const NormLayers& norms);

// Names, dtypes, shapes and requires_grad of all tensors of a model, and a finding if a record of
// them is another than that of the model as it was built.
std::string state_of(const ModulePtr& root);
Findings state_stays(const Row& row, const std::vector<TensorValue>& built);

// The layers of a model, in the order of the case: those that it calls.
std::vector<ModulePtr> called(const Converted& c, const ModulePtr& root);

// A rank feeds one less and one more than this number in a training step.
double fed(const Converted& c, int rank);

// A batch of that for a layer, with so many axes behind the channels.
at::Tensor batch_of(const Converted& c, const Place& place, int rank, int axes);

std::string name_of_layer(size_t layer, const std::string& what);

// After a training step: the new value of a running average, of so many batches before, and the
// first number of a layer's output.
double moved(const Converted& c, const Place& place, double now, int64_t batches, bool is_converted,
             int rank);
double normalised(const Converted& c, const Place& place, bool is_converted, int rank);

}  // namespace lockstep::scenarios::sync_batch_norm
