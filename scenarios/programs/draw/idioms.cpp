#include "scenarios/programs/draw/idioms.h"

namespace lockstep::scenarios::programs {

namespace {

// Heads that take turns: layer 0 is left out in one step and used in the next or in a window of
// no_sync before it.
std::vector<ProgramSpec> alternating_heads() {
  const Step all, without{.unused = {1}}, on_rank_zero{.unused = {0, 1}},
      backward{.op = Op::backward}, window{.no_sync = 1}, together{.op = Op::backward_together},
      in_place{.op = Op::zero_in_place}, none{.op = Op::zero_none}, evaluate{.op = Op::evaluate};
  const std::vector<std::vector<Step>> loops{
      {all, backward, without, backward, on_rank_zero, backward},
      {all, backward, in_place, without, backward, none, without, backward},
      {all, backward, {.op = Op::scale, .ranks = 1}, without, backward, on_rank_zero, backward},
      {all, backward, window, backward, without, backward},
      {all, backward, window, without, together},
      {all, evaluate, without, backward, backward},
      {all, backward, {.left_out_of_loss = {2}}, backward, {.left_out_of_loss = {0, 2}}, backward},
      {without, all, backward, backward, {.op = Op::bare, .ranks = 2}, without, backward}};
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
  for (const auto kind : {LayerKind::transposed, LayerKind::channels_last})
    all_of_them.push_back({.world = {.size = 2},
                           .steps = {all, backward, none, on_rank_zero, backward},
                           .layers = {{.kind = kind, .size = 3}, {.size = 2}},
                           .options = {.find_unused_parameters = true},
                           .seed = 12});
  return all_of_them;
}

// Programs that change a model and its replica between steps.
std::vector<ProgramSpec> lifecycles() {
  const Step forward, local{.no_sync = 1}, backward{.op = Op::backward}, none{.op = Op::zero_none},
      update{.op = Op::update}, freeze{.op = Op::freeze}, unfreeze{.op = Op::unfreeze},
      convert{.op = Op::convert}, wrap{.op = Op::wrap}, unwrap{.op = Op::unwrap},
      load{.op = Op::load}, cut{.op = Op::regroup, .cut = 1}, whole{.op = Op::regroup},
      without{.unused = {1}}, bare{.op = Op::bare}, other{.model = 1},
      other_backward{.op = Op::backward, .model = 1};
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
       {.op = Op::renew},
       forward,
       backward},
      {forward, backward, convert, none, local, backward, without, backward},
      {forward, backward, forward, unwrap, bare, backward, wrap, forward, backward, forward,
       backward},
      {local, backward, update, forward, wrap, forward, backward, backward, update},
      {forward, backward, cut, forward, backward, update, forward, backward, whole, forward,
       backward},
      {forward, cut, backward, {.op = Op::evaluate}, whole, local, backward, forward, backward},
      {{.op = Op::wrap, .cut = 1}, forward, backward, whole, forward, backward, forward, backward},
      {forward, backward, local, backward, whole, forward, backward},
      {forward, backward, {.op = Op::relayout}, forward, backward, forward, backward},
      {load, forward, backward, update, load, {.op = Op::evaluate}, forward, backward},
      {forward,
       backward,
       {.op = Op::freeze, .forgotten = true},
       forward,
       whole,
       forward,
       backward,
       {.op = Op::unfreeze, .forgotten = true},
       forward,
       whole,
       forward,
       backward},
      {{.op = Op::freeze, .forgotten = true},
       cut,
       forward,
       backward,
       {.op = Op::unfreeze, .forgotten = true},
       {.op = Op::tell},
       forward,
       backward,
       forward,
       backward},
      {local, backward, {.op = Op::tell}, without, backward, {.op = Op::tell}, forward, backward},
      {{.op = Op::hold},
       forward,
       backward,
       {.op = Op::hold},
       {.op = Op::release},
       forward,
       backward,
       {.op = Op::release},
       forward,
       bare,
       backward,
       forward,
       {.op = Op::hold},
       whole,
       backward},
      {{.penalty_alone = true},
       backward,
       forward,
       {.no_sync = 1, .penalty_alone = true},
       backward,
       {.op = Op::bare, .penalty_alone = true},
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
       {.op = Op::unwrap, .model = 1},
       backward}};
  std::vector<ProgramSpec> all;
  for (const auto& loop : loops)
    for (const bool views : {false, true})
      for (const bool finds : {false, true})
        all.push_back({.world = {.size = 3},
                       .steps = loop,
                       .layers = {{.kind = LayerKind::linear, .size = 3}, {.size = 5}},
                       .models = 2,
                       .buffers = {BufferKind::float32, BufferKind::int64},
                       .options = {.bucket_cap_bytes = 8,
                                   .find_unused_parameters = finds,
                                   .gradient_as_bucket_view = views},
                       .seed = 6});
  return all;
}

}  // namespace

std::vector<ProgramSpec> idioms() {
  const Step forward, local{.no_sync = 1}, backward{.op = Op::backward}, none{.op = Op::zero_none},
      in_place{.op = Op::zero_in_place}, update{.op = Op::update};
  const std::vector<std::vector<Step>> loops{
      {forward, backward, update, none, forward, backward, update, none, forward, backward},
      {forward, backward, update, in_place, forward, backward, update, in_place, forward, backward},
      {forward, backward, forward, backward, forward, backward},
      {local, backward, local, backward, forward, backward, update, in_place, local, backward,
       forward, backward},
      {forward, forward, backward, backward, forward, {.op = Op::backward_retained}, backward},
      {forward,
       backward,
       {.op = Op::evaluate},
       forward,
       backward,
       {.op = Op::infer},
       forward,
       backward},
      {forward, {.op = Op::throw_}, backward, forward, backward},
      {{.direct = Direct::alone},
       local,
       {.op = Op::backward_together},
       update,
       none,
       {.direct = Direct::beside},
       backward},
      {forward, {.op = Op::bare, .ranks = 1}, backward, {.op = Op::bare}, forward, backward},
      {forward,
       {.infinite = 1},
       {.op = Op::backward_together},
       {.op = Op::update_if_finite},
       in_place,
       forward,
       backward,
       {.op = Op::update_if_finite}}};
  auto all = alternating_heads();
  for (const auto& more : {lifecycles(), uneven_inputs(), plain_penalties(), rounded_averages(),
                           several_models_in_one_pass()})
    all.insert(all.end(), more.begin(), more.end());
  for (const auto& loop : loops)
    for (const int world : {2, 3})
      for (const bool views : {false, true})
        for (const int64_t cap : {0, 1}) {
          ProgramSpec c{
              .world = {.size = world},
              .steps = loop,
              .layers = {{.kind = LayerKind::linear, .size = 3}, {.size = 5}, {.use = Use::twice}},
              .buffers = {BufferKind::float32},
              .options = {.bucket_cap_bytes = cap, .gradient_as_bucket_view = views},
              .seed = 3};
          all.push_back(c);
        }
  for (const bool syncs : {false, true})
    all.push_back(
        {.world = {.size = 3},
         .steps = {{.op = Op::load}, {.op = Op::wrap}, {.op = Op::evaluate}, forward, backward},
         .layers = {{.size = 3}},
         .buffers = {BufferKind::float32, BufferKind::int64},
         .options = {.init_sync = syncs},
         .seed = 10});
  // Gradients that have a graph, of layouts that are multiplied in different ways.
  for (const auto kind : {LayerKind::vector, LayerKind::transposed, LayerKind::channels_last})
    all.push_back(
        {.world = {.size = 2},
         .steps = {forward, {.op = Op::backward, .create_graph = true}, update},
         .layers = {{.kind = kind, .size = 3, .dtype = Dtype::float64, .use = Use::squared}},
         .seed = 11});
  for (const bool views : {false, true})
    for (const int infinite : {0, 1})
      all.push_back({.world = {.size = 2},
                     .steps = {{.infinite = infinite}, backward},
                     .layers = {{.size = 3, .dtype = Dtype::complex64}},
                     .options = {.gradient_as_bucket_view = views},
                     .hook = infinite == 0 ? BucketHook::gathered : BucketHook::none,
                     .seed = 9});
  // A shared gradient that arrives twice, with another one in between.
  for (const int64_t cap : {1, 40})
    all.push_back({.world = {.size = 2},
                   .steps = loops[2],
                   .layers = {{.kind = LayerKind::linear, .size = 3},
                              {.use = Use::recomputed, .tied = true},
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
