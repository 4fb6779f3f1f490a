#include "demos/claims/claims.h"

#include <algorithm>

namespace lockstep {

namespace {

int number_of(const Demo& demo) {
  return std::stoi(demo.name.substr(demo.name.find('-') + 1));
}

}  // namespace

std::vector<Demo> claims() {
  namespace claims = demos::claims;
  std::vector<Demo> all;
  for (auto family :
       {claims::of_sampling(), claims::of_results(), claims::of_replicas(), claims::of_passes(),
        claims::of_batch_norm(), claims::of_evaluation(), claims::of_collectives()})
    all.insert(all.end(), family.begin(), family.end());
  std::sort(all.begin(), all.end(),
            [](const Demo& a, const Demo& b) { return number_of(a) < number_of(b); });
  return all;
}

}  // namespace lockstep
