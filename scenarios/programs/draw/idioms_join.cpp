#include "scenarios/programs/draw/idioms.h"

namespace lockstep::scenarios::programs {

// Loops in which ranks run out of inputs at different steps, and what comes after them.
std::vector<ProgramSpec> uneven_inputs() {
  const Step forward, local{.no_sync = 1}, backward{.op = Op::backward}, none{.op = Op::zero_none},
      update{.op = Op::update}, finish{.op = Op::finish}, without{.unused = {1}},
      evaluate{.op = Op::evaluate}, thrown{.op = Op::throw_};
  const auto join = [](std::vector<int> forwards, JoinKind uneven) {
    return Step{.op = Op::join, .forwards = std::move(forwards), .uneven = uneven};
  };
  std::vector<ProgramSpec> all;
  for (const auto uneven : {JoinKind::world, JoinKind::live, JoinKind::throws})
    for (const std::vector<int>& forwards :
         std::vector<std::vector<int>>{{0}, {0, 1}, {1, 0}, {1, 2, 3}, {3, 2, 1}, {2, 0, 3, 1}})
      for (const bool finds : {false, true}) {
        const Step begin = join(forwards, uneven);
        const std::vector<std::vector<Step>> loops{
            {begin, forward, backward, update, none, forward, backward, update, none, forward,
             backward, update, finish, none, forward, backward, update},
            {local, backward, begin, local, backward, forward, backward, update, local, backward,
             forward, backward, finish, forward, backward},
            {forward,
             begin,
             forward,
             backward,
             evaluate,
             forward,
             thrown,
             finds ? without : forward,
             {.op = Op::backward_together},
             finish,
             thrown,
             forward,
             backward,
             begin,
             forward,
             backward},
            {begin, forward, backward, evaluate, evaluate, finish, thrown, forward, backward},
            {begin,
             forward,
             backward,
             {.op = Op::regroup},
             forward,
             backward,
             {.op = Op::regroup, .cut = 1},
             forward,
             backward,
             finish,
             forward,
             backward},
            {forward,
             backward,
             {.no_sync = 1, .unused = {1, 0}},
             backward,
             begin,
             without,
             backward,
             finish,
             forward,
             backward}};
        for (const auto& loop : loops)
          all.push_back({.world = {.size = forwards.size() < 4 ? 3 : 4},
                         .steps = loop,
                         .layers = {{.kind = LayerKind::linear, .size = 3},
                                    {.size = 5},
                                    {.kind = LayerKind::sparse}},
                         .buffers = {BufferKind::float32, BufferKind::int64},
                         .options = {.bucket_cap_bytes = 8,
                                     .find_unused_parameters = finds,
                                     .gradient_as_bucket_view = forwards.size() == 3},
                         .seed = 8});
      }
  return all;
}

}  // namespace lockstep::scenarios::programs
