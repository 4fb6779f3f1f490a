#include "demos/catalogue.h"

namespace lockstep {

namespace demos {

namespace sampler {
Demo demonstration();
}
namespace buffers {
Demo demonstration();
}
namespace collectives {
Demo demonstration();
}
namespace average {
Demo demonstration();
}
namespace dp_vs_ddp {
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
namespace buckets {
Demo demonstration();
}
namespace uneven {
Demo demonstration();
}
namespace hang {
Demo demonstration();
}

}  // namespace demos

std::vector<Demo> demonstrations() {
  return {demos::sampler::demonstration(),     demos::buffers::demonstration(),
          demos::collectives::demonstration(), demos::average::demonstration(),
          demos::dp_vs_ddp::demonstration(),   demos::syncbn::demonstration(),
          demos::no_sync::demonstration(),     demos::unused::demonstration(),
          demos::buckets::demonstration(),     demos::uneven::demonstration(),
          demos::hang::demonstration()};
}

}  // namespace lockstep
