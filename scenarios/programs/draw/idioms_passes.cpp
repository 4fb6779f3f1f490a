#include "scenarios/programs/draw/idioms.h"

namespace lockstep::scenarios::programs {

// Penalties of models that multiply inputs by parameters and do nothing else.
std::vector<ProgramSpec> plain_penalties() {
  const Step alone{.penalty_alone = true, .direct = "alone"}, backward{.op = "backward"},
      local{.no_sync = 1, .penalty_alone = true, .direct = "alone"}, none{.op = "zero_none"};
  std::vector<ProgramSpec> all;
  for (const bool views : {false, true})
    all.push_back({.world = {.size = 2},
                   .steps = {alone,
                             backward,
                             alone,
                             {},
                             backward,
                             backward,
                             none,
                             local,
                             backward,
                             alone,
                             {.no_sync = 1},
                             {.op = "backward_together"},
                             alone,
                             {.op = "regroup"},
                             backward},
                   .layers = {{.size = 3}, {.kind = "transposed", .size = 2}},
                   .options = {.gradient_as_bucket_view = views},
                   .seed = 13});
  return all;
}

// Averages that round, of new gradients and of those that a pass has left.
std::vector<ProgramSpec> rounded_averages() {
  const Step forward, rounds{.rounds = true}, backward{.op = "backward"},
      in_place{.op = "zero_in_place"}, none{.op = "zero_none"};
  std::vector<ProgramSpec> all;
  for (const char* dtype : {"float32", "float64"})
    for (const bool views : {false, true})
      for (const bool batched : {false, true})
        all.push_back({.world = {.size = 3},
                       .steps = {rounds,
                                 backward,
                                 in_place,
                                 rounds,
                                 backward,
                                 none,
                                 rounds,
                                 backward,
                                 in_place,
                                 {.op = "regroup"},
                                 rounds,
                                 backward},
                       .layers = {{.size = 9, .dtype = dtype}, {.kind = "sparse", .size = 3}},
                       .options = {.gradient_as_bucket_view = views, .batched_grad_copy = batched},
                       .seed = 14});
  return all;
}

// Passes through several models, of which each rank has run the forwards in an order of its own.
std::vector<ProgramSpec> several_models_in_one_pass() {
  const Step all{.everywhere = true}, backward{.op = "backward_together", .everywhere = true},
      update{.op = "update"}, none{.op = "zero_none"};
  std::vector<ProgramSpec> out;
  for (const int models : {2, 3})
    for (const bool finds : {false, true})
      for (const int64_t cap : {0, 8})
        out.push_back({.world = {.size = 3},
                       .steps = {all, backward, update, none, all, backward, all, backward},
                       .layers = {{.kind = "linear", .size = 3}, {.size = 5}},
                       .models = models,
                       .options = {.bucket_cap_bytes = cap, .find_unused_parameters = finds},
                       .seed = 15});
  return out;
}

}  // namespace lockstep::scenarios::programs
