#include "demos/catalogue.h"

#define DEMONSTRATION(name, ...)    \
  namespace lockstep::demos::name { \
  Demo demonstration();             \
  }
#include "demos/catalogue.def"
#undef DEMONSTRATION

namespace lockstep {

std::vector<Demo> demonstrations() {
  std::vector<Demo> all;
  const auto add = [&all](Demo demo, std::vector<std::string> next) {
    all.push_back(std::move(demo));
    all.back().next = std::move(next);
  };
#define DEMONSTRATION(name, ...) add(demos::name::demonstration(), {__VA_ARGS__});
#include "demos/catalogue.def"
#undef DEMONSTRATION
  return all;
}

}  // namespace lockstep
