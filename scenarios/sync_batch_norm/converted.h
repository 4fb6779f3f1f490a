// A model of BatchNorm layers in containers and members, and what is done to it.
#pragma once

#include "harness/cases/scenario.h"
#include "harness/worlds/subject.h"

namespace lockstep::scenarios::sync_batch_norm {

inline constexpr double kMovingHalf = 0.5;  // the momentum of its layers

struct Place {
  std::string in = "sequential";  // or a list, a dict, or a member of a class
  // True: of the subject's own class, as every member is; in a sequence it is LibTorch's.
  bool own = false;
  int axes = 1;  // behind the channels
  int channels = 1;
  std::string frozen = "none";
  bool tracks = true;  // running statistics
  bool evaluates = false;
  std::string dtype = "float32";
  auto operator<=>(const Place&) const = default;
  static constexpr auto fields() {
    return std::tuple{field("in", &Place::in, one_of("sequential|list|dict|member")),
                      field("own", &Place::own),
                      field("axes", &Place::axes, between(1, 3)),
                      field("channels", &Place::channels, between(1, 600)),
                      field("frozen", &Place::frozen, one_of("none|weight|all")),
                      field("tracks", &Place::tracks),
                      field("evaluates", &Place::evaluates),
                      field("dtype", &Place::dtype, one_of("float32|float64"))};
  }
};

// Acts: conversions, reversals, training steps, copies, and "turn", which puts layers in training
// into evaluation mode, and the others back.
struct Converted {
  WorldSpec world;
  std::vector<std::string> acts;
  std::vector<Place> layers;  // empty: one
  auto operator<=>(const Converted&) const = default;
  static constexpr auto fields() {
    return std::tuple{
        field("world", &Converted::world),
        field("acts", &Converted::acts, at_most(8, one_of("convert|revert|train|copy|turn"))),
        field("layers", &Converted::layers, at_most(8, {}))};
  }
};

// As the model has them.
std::vector<Place> layers_of(const Converted& c);

using ModulePtr = std::shared_ptr<torch::nn::Module>;

ModulePtr built(const Converted& c, const NormLayers& norms);

// The layers of a model, in the order of the case: those that it calls.
std::vector<ModulePtr> called(const Converted& c, const ModulePtr& root);

}  // namespace lockstep::scenarios::sync_batch_norm
