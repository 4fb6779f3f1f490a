#include "scenarios/programs/draw/idioms.h"

namespace lockstep::scenarios::programs {

// Loops in which ranks run out of inputs at different steps, and what comes after them.
std::vector<ProgramSpec> uneven_inputs() {
  const Step forward, local{.no_sync = 1}, backward{.op = "backward"}, none{.op = "zero_none"},
      update{.op = "update"}, finish{.op = "finish"}, without{.unused = {1}},
      evaluate{.op = "evaluate"}, thrown{.op = "throw"};
  const auto join = [](std::vector<int> forwards, const char* uneven) {
    return Step{.op = "join", .forwards = std::move(forwards), .uneven = uneven};
  };
  std::vector<ProgramSpec> all;
  for (const char* uneven : {"world", "live", "throws"})
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
             {.op = "backward_together"},
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
             {.op = "regroup"},
             forward,
             backward,
             {.op = "regroup", .cut = 1},
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
                         .layers = {{.kind = "linear", .size = 3}, {.size = 5}, {.kind = "sparse"}},
                         .buffers = {"float32", "int64"},
                         .options = {.bucket_cap_bytes = 8,
                                     .find_unused_parameters = finds,
                                     .gradient_as_bucket_view = forwards.size() == 3},
                         .seed = 8});
      }
  return all;
}

}  // namespace lockstep::scenarios::programs
