#include "demos/lessons.h"

#include "demos/beliefs/beliefs.h"
#include "demos/catalogue.h"

namespace lockstep {

Lessons lessons() {
  return {.demos = demonstrations(),
          .beliefs = beliefs(),
          .course = {{"One process", "demo belief-6", "1-one-process.md"},
                     {"Dividing the data", "demo sampler --set world=3", "2-dividing-the-data.md"},
                     {"Collectives", "demo collectives --set world=3", "3-collectives.md"},
                     {"Averaged gradients", "demo average", "4-averaged-gradients.md"},
                     {"Accumulated gradients", "demo no_sync --set micro_batches=3",
                      "5-accumulated-gradients.md"},
                     {"Buckets", "demo buckets --set cap_bytes=64", "6-buckets.md"},
                     {"Buffers", "demo buffers", "7-buffers.md"},
                     {"SyncBatchNorm over uneven ranks", "demo syncbn --set 'samples=[4,2]'",
                      "8-sync-batch-norm-over-uneven-ranks.md"}}};
}

}  // namespace lockstep
