#pragma once

#include "ddp/reducer/layout.h"
#include "ddp/reducer/parameter_usage.h"
#include "ddp/reducer/parameters.h"
#include "ddp/reducer/reducer_options.h"
#include "ddp/reducer/static_graph.h"

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace lockstep {

// The state that a reducer keeps from pass to pass; made anew when the set of parameters changes.
struct ReducedModel {
  ReducedModel(Parameters given, const ReducerOptions& options)
      : parameters(std::move(given)),
        layout(options.first_plan_has_caps ? first_plan(parameters.sizes(), options.bytes_caps)
                                           : first_plan(parameters.sizes()),
               parameters, options.bucket),
        usage(parameters.count()),
        static_graph(parameters.count()) {}

  Parameters parameters;
  Layout layout;
  bool is_rebuilt = false;
  ParameterUsage usage;
  StaticGraph static_graph;
  std::vector<std::size_t> arrivals;  // of the last reduced pass; one that came twice occurs twice
  std::int64_t pass_count = 0;        // of those without an error
};

}  // namespace lockstep
