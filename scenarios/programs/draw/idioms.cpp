#include "scenarios/programs/draw/idioms.h"

namespace lockstep::scenarios::programs {

namespace {

// Heads that take turns: layer 0 is left out in one step and used in the next or in a window of
// no_sync before it.
std::vector<ProgramSpec> alternating_heads() {
  const Step all, without{.unused = {1}}, on_rank_zero{.unused = {0, 1}},
      backward{.op = "backward"}, window{.no_sync = 1}, together{.op = "backward_together"},
      in_place{.op = "zero_in_place"}, none{.op = "zero_none"}, evaluate{.op = "evaluate"};
  const std::vector<std::vector<Step>> loops{
      {all, backward, without, backward, on_rank_zero, backward},
      {all, backward, in_place, without, backward, none, without, backward},
      {all, backward, {.op = "scale", .ranks = 1}, without, backward, on_rank_zero, backward},
      {all, backward, window, backward, without, backward},
      {all, backward, window, without, together},
      {all, evaluate, without, backward, backward},
      {all, backward, {.left_out_of_loss = {2}}, backward, {.left_out_of_loss = {0, 2}}, backward},
      {without, all, backward, backward, {.op = "bare", .ranks = 2}, without, backward}};
  std::vector<ProgramSpec> all_of_them;
  for (const auto& loop : loops)
    for (const bool views : {false, true})
      for (const bool skips : {false, true})
        all_of_them.push_back({.world = {.size = 2},
                               .steps = loop,
                               .layers = {{.size = 3}, {.size = 2}},
                               .outputs = 2,
                               .nested = skips,
                               .options = {.bucket_cap_bytes = 1,
                                           .find_unused_parameters = true,
                                           .gradient_as_bucket_view = views,
                                           .skip_all_reduce_unused_params = skips},
                               .seed = 5});
  // A gradient that a rank receives and has not computed has the layout of its parameter.
  for (const char* kind : {"transposed", "channels_last"})
    all_of_them.push_back({.world = {.size = 2},
                           .steps = {all, backward, none, on_rank_zero, backward},
                           .layers = {{.kind = kind, .size = 3}, {.size = 2}},
                           .options = {.find_unused_parameters = true},
                           .seed = 12});
  return all_of_them;
}

// Programs that change a model and its replica between steps.
std::vector<ProgramSpec> lifecycles() {
  const Step forward, local{.no_sync = 1}, backward{.op = "backward"}, none{.op = "zero_none"},
      update{.op = "update"}, freeze{.op = "freeze"}, unfreeze{.op = "unfreeze"},
      convert{.op = "convert"}, wrap{.op = "wrap"}, unwrap{.op = "unwrap"}, load{.op = "load"},
      cut{.op = "regroup", .cut = 1}, whole{.op = "regroup"}, without{.unused = {1}},
      bare{.op = "bare"}, other{.model = 1}, other_backward{.op = "backward", .model = 1};
  const std::vector<std::vector<Step>> loops{
      {forward, backward, freeze, forward, backward, none, forward, backward, unfreeze, forward,
       backward, forward, backward},
      {local, backward, forward, freeze, backward, unfreeze, forward, backward},
      {forward,
       backward,
       convert,
       local,
       backward,
       forward,
       backward,
       {.op = "renew"},
       forward,
       backward},
      {forward, backward, convert, none, local, backward, without, backward},
      {forward, backward, forward, unwrap, bare, backward, wrap, forward, backward, forward,
       backward},
      {local, backward, update, forward, wrap, forward, backward, backward, update},
      {forward, backward, cut, forward, backward, update, forward, backward, whole, forward,
       backward},
      {forward, cut, backward, {.op = "evaluate"}, whole, local, backward, forward, backward},
      {forward, backward, local, backward, whole, forward, backward},
      {forward, backward, {.op = "relayout"}, forward, backward, forward, backward},
      {load, forward, backward, update, load, {.op = "evaluate"}, forward, backward},
      {forward,
       backward,
       {.op = "freeze", .forgotten = true},
       forward,
       whole,
       forward,
       backward,
       {.op = "unfreeze", .forgotten = true},
       forward,
       whole,
       forward,
       backward},
      {{.op = "freeze", .forgotten = true},
       cut,
       forward,
       backward,
       {.op = "unfreeze", .forgotten = true},
       {.op = "tell"},
       forward,
       backward,
       forward,
       backward},
      {local, backward, {.op = "tell"}, without, backward, {.op = "tell"}, forward, backward},
      {{.op = "hold"},
       forward,
       backward,
       {.op = "hold"},
       {.op = "release"},
       forward,
       backward,
       {.op = "release"},
       forward,
       bare,
       backward,
       forward,
       {.op = "hold"},
       whole,
       backward},
      {{.penalty_alone = true},
       backward,
       forward,
       {.no_sync = 1, .penalty_alone = true},
       backward,
       {.op = "bare", .penalty_alone = true},
       backward},
      {forward,
       other,
       backward,
       unwrap,
       other_backward,
       other,
       wrap,
       forward,
       other_backward,
       {.op = "unwrap", .model = 1},
       backward}};
  std::vector<ProgramSpec> all;
  for (const auto& loop : loops)
    for (const bool views : {false, true})
      for (const bool finds : {false, true})
        all.push_back({.world = {.size = 3},
                       .steps = loop,
                       .layers = {{.kind = "linear", .size = 3}, {.size = 5}},
                       .models = 2,
                       .buffers = {"float32", "int64"},
                       .options = {.bucket_cap_bytes = 8,
                                   .find_unused_parameters = finds,
                                   .gradient_as_bucket_view = views},
                       .seed = 6});
  return all;
}

}  // namespace

std::vector<ProgramSpec> idioms() {
  const Step forward, local{.no_sync = 1}, backward{.op = "backward"}, none{.op = "zero_none"},
      in_place{.op = "zero_in_place"}, update{.op = "update"};
  const std::vector<std::vector<Step>> loops{
      {forward, backward, update, none, forward, backward, update, none, forward, backward},
      {forward, backward, update, in_place, forward, backward, update, in_place, forward, backward},
      {forward, backward, forward, backward, forward, backward},
      {local, backward, local, backward, forward, backward, update, in_place, local, backward,
       forward, backward},
      {forward, forward, backward, backward, forward, {.op = "backward_retained"}, backward},
      {forward,
       backward,
       {.op = "evaluate"},
       forward,
       backward,
       {.op = "infer"},
       forward,
       backward},
      {forward, {.op = "throw"}, backward, forward, backward},
      {{.direct = "alone"},
       local,
       {.op = "backward_together"},
       update,
       none,
       {.direct = "beside"},
       backward},
      {forward, {.op = "bare", .ranks = 1}, backward, {.op = "bare"}, forward, backward},
      {forward,
       {.infinite = 1},
       {.op = "backward_together"},
       {.op = "update_if_finite"},
       in_place,
       forward,
       backward,
       {.op = "update_if_finite"}}};
  auto all = alternating_heads();
  for (const auto& more : {lifecycles(), uneven_inputs(), plain_penalties(), rounded_averages(),
                           several_models_in_one_pass()})
    all.insert(all.end(), more.begin(), more.end());
  for (const auto& loop : loops)
    for (const int world : {2, 3})
      for (const bool views : {false, true})
        for (const int64_t cap : {0, 1}) {
          ProgramSpec c{.world = {.size = world},
                        .steps = loop,
                        .layers = {{.kind = "linear", .size = 3}, {.size = 5}, {.use = "twice"}},
                        .buffers = {"float32"},
                        .options = {.bucket_cap_bytes = cap, .gradient_as_bucket_view = views},
                        .seed = 3};
          all.push_back(c);
        }
  for (const bool syncs : {false, true})
    all.push_back({.world = {.size = 3},
                   .steps = {{.op = "load"}, {.op = "wrap"}, {.op = "evaluate"}, forward, backward},
                   .layers = {{.size = 3}},
                   .buffers = {"float32", "int64"},
                   .options = {.init_sync = syncs},
                   .seed = 10});
  // Gradients that have a graph, of layouts that are multiplied in different ways.
  for (const char* kind : {"vector", "transposed", "channels_last"})
    all.push_back({.world = {.size = 2},
                   .steps = {forward, {.op = "backward", .create_graph = true}, update},
                   .layers = {{.kind = kind, .size = 3, .dtype = "float64", .use = "squared"}},
                   .seed = 11});
  for (const bool views : {false, true})
    for (const int infinite : {0, 1})
      all.push_back({.world = {.size = 2},
                     .steps = {{.infinite = infinite}, backward},
                     .layers = {{.size = 3, .dtype = "complex64"}},
                     .options = {.gradient_as_bucket_view = views},
                     .seed = 9});
  // A shared gradient that arrives twice, with another one in between.
  for (const int64_t cap : {1, 40})
    all.push_back({.world = {.size = 2},
                   .steps = loops[2],
                   .layers = {{.kind = "linear", .size = 3},
                              {.use = "recomputed", .tied = true},
                              {.size = 5}},
                   .options = {.bucket_cap_bytes = cap, .static_graph = true},
                   .seed = 7});
  for (const bool views : {false, true})
    all.push_back({.world = {.size = 2},
                   .steps = loops[1],
                   .layers = {{.size = 32767}, {.size = 100003}, {.size = 0}, {.size = 32768}},
                   .options = {.gradient_as_bucket_view = views},
                   .seed = 4});
  return all;
}

}  // namespace lockstep::scenarios::programs
