#include "scenarios/programs/labels.h"

#include "scenarios/cases/labels.h"

#include <algorithm>

namespace lockstep::scenarios::programs {

namespace {

bool has_step(const Programme& c, bool (*is_it)(const Step&)) {
  return std::any_of(c.steps.begin(), c.steps.end(), is_it);
}

bool has_layer(const Programme& c, bool (*is_it)(const LayerSpec&)) {
  return std::any_of(c.layers.begin(), c.layers.end(), is_it);
}

}  // namespace

std::vector<Label<Programme>> labels() {
  return {{"three ranks and more", 0.2, has_three_ranks<Programme>},
          {"a window of no_sync", 0.2,
           [](const Programme& c) {
             return has_step(c, [](const Step& step) { return step.no_sync > 0; });
           }},
          {"an evaluation", 0.1,
           [](const Programme& c) {
             return has_step(
                 c, [](const Step& step) { return step.op == "evaluate" || step.op == "infer"; });
           }},
          {"a forward that throws", 0.05,
           [](const Programme& c) {
             return has_step(c, [](const Step& step) { return step.op == "throw"; });
           }},
          {"layers that a forward leaves out", 0.05,
           [](const Programme& c) {
             return has_step(c, [](const Step& step) { return !step.unused.empty(); });
           }},
          {"a layer frozen or unfrozen", 0.1,
           [](const Programme& c) {
             return has_step(c, [](const Step& step) { return step.op.ends_with("freeze"); });
           }},
          {"values loaded, or memory exchanged", 0.1,
           [](const Programme& c) {
             return has_step(c, [](const Step& step) {
               return step.op == "load" || step.op == "renew" || step.op == "convert";
             });
           }},
          {"a replica after another one", 0.07,
           [](const Programme& c) {
             return has_step(c, [](const Step& step) { return step.op == "wrap"; });
           }},
          {"another process group", 0.05,
           [](const Programme& c) {
             return has_step(c, [](const Step& step) { return step.op == "regroup"; });
           }},
          {"a layer that is recomputed", 0.05,
           [](const Programme& c) {
             return has_layer(c, [](const LayerSpec& layer) { return layer.use == "recomputed"; });
           }},
          {"a backward for some inputs, or autograd::grad", 0.06,
           [](const Programme& c) {
             return has_step(c, [](const Step& step) {
               return step.op == "grad" || (step.op.starts_with("backward") && step.inputs != "no");
             });
           }},
          {"a backward that creates a graph", 0.05,
           [](const Programme& c) {
             return has_step(c, [](const Step& step) {
               return step.op.starts_with("backward") && step.create_graph;
             });
           }},
          {"sparse gradients", 0.1,
           [](const Programme& c) {
             return has_layer(c, [](const LayerSpec& layer) { return layer.kind == "sparse"; });
           }},
          {"gradients in another layout", 0.1,
           [](const Programme& c) {
             return has_step(c, [](const Step& step) { return step.op == "relayout"; });
           }},
          {"layers that are ignored or delayed", 0.1,
           [](const Programme& c) {
             return has_layer(
                 c, [](const LayerSpec& layer) { return layer.travels != "with_others"; });
           }},
          {"another environment", 0.2,
           [](const Programme& c) { return c.environment != EnvironmentSpec(); }},
          {"several models", 0.1, [](const Programme& c) { return c.models > 1; }},
          {"half precision", 0.05,
           [](const Programme& c) {
             return has_layer(c, [](const LayerSpec& layer) {
               return layer.dtype == "float16" || layer.dtype == "bfloat16";
             });
           }},
          {"a parameter of 4,097 elements and more", 0.03, [](const Programme& c) {
             return has_layer(c, [](const LayerSpec& layer) { return layer.size >= 4097; });
           }}};
}

}  // namespace lockstep::scenarios::programs
