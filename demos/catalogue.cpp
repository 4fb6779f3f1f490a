#include "demos/catalogue.h"

#include <map>

namespace lockstep {

namespace demos {

namespace sampler {
Demo demonstration();
}
namespace collectives {
Demo demonstration();
}
namespace average {
Demo demonstration();
}
namespace one_process {
Demo demonstration();
}
namespace dp_vs_ddp {
Demo demonstration();
}
namespace buckets {
Demo demonstration();
}
namespace overlap {
Demo demonstration();
}
namespace buffers {
Demo demonstration();
}
namespace syncbn {
Demo demonstration();
}
namespace no_sync {
Demo demonstration();
}
namespace unused {
Demo demonstration();
}
namespace uneven {
Demo demonstration();
}
namespace hang {
Demo demonstration();
}
namespace faults {
Demo demonstration();
}
namespace scale {
Demo demonstration();
}

}  // namespace demos

namespace {

// Demonstrations to see next: those that explain one further, or rest on it.
const std::map<std::string, std::vector<std::string>> kNext{{"sampler", {"collectives", "average"}},
                                                            {"collectives", {"average", "hang"}},
                                                            {"average", {"reference", "uneven"}},
                                                            {"reference", {"faults"}},
                                                            {"dp_vs_ddp", {"buckets", "buffers"}},
                                                            {"buckets", {"overlap"}},
                                                            {"overlap", {"scale", "buckets"}},
                                                            {"buffers", {"syncbn"}},
                                                            {"syncbn", {"buffers", "uneven"}},
                                                            {"no_sync", {"unused"}},
                                                            {"unused", {"uneven", "hang"}},
                                                            {"uneven", {"hang"}},
                                                            {"hang", {"collectives", "unused"}},
                                                            {"faults", {"reference", "hang"}},
                                                            {"scale", {"overlap"}}};

}  // namespace

std::vector<Demo> demonstrations() {
  std::vector<Demo> all{demos::sampler::demonstration(),   demos::collectives::demonstration(),
                        demos::average::demonstration(),   demos::one_process::demonstration(),
                        demos::dp_vs_ddp::demonstration(), demos::buckets::demonstration(),
                        demos::overlap::demonstration(),   demos::buffers::demonstration(),
                        demos::syncbn::demonstration(),    demos::no_sync::demonstration(),
                        demos::unused::demonstration(),    demos::uneven::demonstration(),
                        demos::hang::demonstration(),      demos::faults::demonstration(),
                        demos::scale::demonstration()};
  for (auto& demo : all) demo.next = kNext.at(demo.name);
  return all;
}

}  // namespace lockstep
