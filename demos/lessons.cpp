#include "demos/lessons.h"

#include "demos/beliefs/beliefs.h"
#include "demos/catalogue.h"

namespace lockstep {

Lessons lessons() {
  return {.demos = demonstrations(),
          .beliefs = beliefs(),
          .course = {
              {"One process", "demo belief-6", "01-one-process.md"},
              {"Dividing the data", "demo sampler --set world=3", "02-dividing-the-data.md"},
              {"Collectives", "demo collectives --set world=3", "03-collectives.md"},
              {"Averaged gradients", "demo average", "04-averaged-gradients.md"},
              {"Staying equal", "demo belief-28", "05-staying-equal.md"},
              {"Accumulated gradients", "demo no_sync --set micro_batches=3",
               "06-accumulated-gradients.md"},
              {"Buckets", "demo buckets", "07-buckets.md"},
              {"Overlap and bucket size", "demo overlap", "08-overlap-and-bucket-size.md"},
              {"Buffers", "demo buffers", "09-buffers.md"},
              {"SyncBatchNorm over uneven ranks", "demo syncbn --set 'samples=[4,2]'",
               "10-sync-batch-norm-over-uneven-ranks.md"},
              {"Hangs, and who is missing", "demo hang --wrong one_rank_skips",
               "11-hangs-and-who-is-missing.md"},
              {"Unused parameters and uneven inputs", "demo unused",
               "12-unused-parameters-and-uneven-inputs.md"},
              {"Evaluation, metrics and the learning rate", "demo belief-14 --set world=3",
               "13-evaluation-metrics-and-the-learning-rate.md"},
              {"Your own training, judged", "demo belief-25", "14-your-own-training-judged.md"}}};
}

}  // namespace lockstep
