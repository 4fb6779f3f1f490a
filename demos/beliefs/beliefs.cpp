#include "demos/beliefs/beliefs.h"

#include <algorithm>

namespace lockstep {

namespace {

int number_of(const Demo& demo) {
  return std::stoi(demo.name.substr(demo.name.find('-') + 1));
}

}  // namespace

std::vector<Demo> beliefs() {
  namespace beliefs = demos::beliefs;
  std::vector<Demo> all;
  for (auto family :
       {beliefs::of_sampling(), beliefs::of_results(), beliefs::of_replicas(), beliefs::of_passes(),
        beliefs::of_batch_norm(), beliefs::of_evaluation(), beliefs::of_collectives()})
    all.insert(all.end(), family.begin(), family.end());
  std::sort(all.begin(), all.end(),
            [](const Demo& a, const Demo& b) { return number_of(a) < number_of(b); });
  return all;
}

}  // namespace lockstep
