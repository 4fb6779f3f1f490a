#include "scenarios/programs/draw/idioms.h"

namespace lockstep::scenarios::programs {

// Penalties of models that multiply inputs by parameters and do nothing else.
std::vector<ProgramSpec> plain_penalties() {
  const Step alone{.penalty_alone = true, .direct = Direct::alone}, backward{.op = Op::backward},
      local{.no_sync = 1, .penalty_alone = true, .direct = Direct::alone},
      none{.op = Op::zero_none};
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
                             {.op = Op::backward_together},
                             alone,
                             {.op = Op::regroup},
                             backward},
                   .layers = {{.size = 3}, {.kind = LayerKind::transposed, .size = 2}},
                   .options = {.gradient_as_bucket_view = views},
                   .seed = 13});
  return all;
}

// Averages that round, of new gradients and of those that a pass has left.
std::vector<ProgramSpec> rounded_averages() {
  const Step forward, rounds{.rounds = true}, backward{.op = Op::backward},
      in_place{.op = Op::zero_in_place}, none{.op = Op::zero_none};
  std::vector<ProgramSpec> all;
  for (const auto dtype : {Dtype::float32, Dtype::float64})
    for (const bool views : {false, true})
      for (const bool batched : {false, true})
        all.push_back(
            {.world = {.size = 3},
             .steps = {rounds,
                       backward,
                       in_place,
                       rounds,
                       backward,
                       none,
                       rounds,
                       backward,
                       in_place,
                       {.op = Op::regroup},
                       rounds,
                       backward},
             .layers = {{.size = 9, .dtype = dtype}, {.kind = LayerKind::sparse, .size = 3}},
             .options = {.gradient_as_bucket_view = views, .batched_grad_copy = batched},
             .seed = 14});
  return all;
}

// Passes through several models, of which each rank has run the forwards in an order of its own.
std::vector<ProgramSpec> several_models_in_one_pass() {
  const Step all{.everywhere = true}, backward{.op = Op::backward_together, .everywhere = true},
      update{.op = Op::update}, none{.op = Op::zero_none};
  std::vector<ProgramSpec> out;
  for (const int models : {2, 3})
    for (const bool finds : {false, true})
      for (const int64_t cap : {0, 8})
        out.push_back({.world = {.size = 3},
                       .steps = {all, backward, update, none, all, backward, all, backward},
                       .layers = {{.kind = LayerKind::linear, .size = 3}, {.size = 5}},
                       .models = models,
                       .options = {.bucket_cap_bytes = cap, .find_unused_parameters = finds},
                       .seed = 15});
  return out;
}

}  // namespace lockstep::scenarios::programs
