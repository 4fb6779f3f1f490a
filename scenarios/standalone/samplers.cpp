// PyTorch's DistributedSampler: each rank draws, and the order is known from the definition.
#include "harness/base/text.h"
#include "reference/sampling.h"
#include "scenarios/cases/sampling.h"
#include "scenarios/standalone/family.h"

namespace lockstep::scenarios::standalone {

namespace {

constexpr int64_t kDrawnSamplesMost = 200;

constexpr const char* kDraws = R"(for epoch in range(len(RIGHT)):
    net.drawn = RIGHT[epoch][rank]
    if model is not net:
        net.sampler.set_epoch(epoch)
        net.drawn = %DRAWN
    yield f"epoch {epoch}", None
)";

Python partitions(const Sampling& c) {
  if (c.shuffle && c.constant_memory)
    throw NotWritten("PyTorch's DistributedSampler always stores its order");
  if (!c.drop_last && !c.pad)
    throw NotWritten("PyTorch's DistributedSampler always repeats samples, unless it drops some");
  if (c.length > kDrawnSamplesMost)
    throw NotWritten("the case has more samples than a reader reads: shrink it first");
  std::vector<std::string> epochs;
  for (int epoch = 0; epoch < c.epochs; ++epoch) {
    std::vector<std::string> ranks;
    for (int rank = 0; rank < c.world.size; ++rank)
      ranks.push_back(list(reference::rank_order({.length = c.length,
                                                  .world_size = c.world.size,
                                                  .shuffle = c.shuffle,
                                                  .drop_last = c.drop_last,
                                                  .pad = c.pad,
                                                  .seed = c.seed,
                                                  .epoch = epoch},
                                                 rank)));
    epochs.push_back(list(ranks));
  }
  const auto loader = "[int(i) for batch in DataLoader(range(" + std::to_string(c.length) +
                      "), sampler=net.sampler, batch_size=" + std::to_string(c.batch_size) +
                      ") for i in batch]";
  return {.world = c.world.size,
          .values = "from torch.utils.data import DataLoader, DistributedSampler\n\n" +
                    table("RIGHT", "epoch and rank, from the definition: the samples that it draws",
                          epochs),
          .net =
              "def __init__(self, rank):\n    super().__init__()\n"
              "    self.sampler = DistributedSampler(\n        range(" +
              std::to_string(c.length) + "), num_replicas=WORLD, rank=rank, seed=" +
              std::to_string(c.seed) + ", shuffle=" + (c.shuffle ? "True" : "False") +
              ", drop_last=" + (c.drop_last ? "True" : "False") + ")\n",
          .program = filled(kDraws, {{"%DRAWN", c.through_loader ? loader : "list(net.sampler)"}}),
          .held = "{\"samples\": net.drawn}",
          .wrap = "None",
          .no_sync = "nullcontext"};
}

std::string draws_in_words(const Sampling& c) {
  return "each of " + std::to_string(c.world.size) + " ranks draws its part of " +
         counted(c.length, "sample") + ", " + (c.shuffle ? "shuffled" : "in order") +
         (c.drop_last ? ", the rest dropped" : "") + ", in " + counted(c.epochs, "epoch");
}

}  // namespace

Families samplers() {
  return {said("sampler.partitions_the_dataset", partitions, draws_in_words)};
}

}  // namespace lockstep::scenarios::standalone
