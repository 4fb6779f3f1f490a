#include "harness/base/text.h"
#include "scenarios/evaluation/evaluated.h"
#include "scenarios/standalone/family.h"

#include <algorithm>

namespace lockstep::scenarios::standalone {

namespace {

constexpr const char* kRounds = R"(optimizer = torch.optim.SGD(net.parameters(), lr=1.0)
for round in range(len(GRADIENT)):
    optimizer.zero_grad()
    model.train()
    model(torch.tensor([GRADIENT[round][rank]])).sum().backward()
    yield None, average
    optimizer.step()
    model.eval()
    with torch.profiler.profile() as seen, %CONTEXT:
        for batch in BATCHES[round][rank]:
            model(torch.tensor(batch))
    net.issued = [each.name for each in seen.events() if each.name.startswith("c10d::")]
    yield f"round {round}, evaluated", None
)";

using scenarios::evaluation::Evaluated;

// The inputs of a rank's samples, in batches.
std::string batches_of(const Evaluated& c, int round, int rank) {
  const auto samples = samples_of(c, round, rank);
  const auto size = static_cast<size_t>(c.batch_size);
  std::vector<std::string> out;
  for (size_t at = 0; at < samples.size(); at += size) {
    std::vector<std::string> batch;
    for (size_t i = at; i < std::min(at + size, samples.size()); ++i)
      batch.push_back(literal(static_cast<double>(input_of(c, samples[i]))));
    out.push_back(list(batch));
  }
  return list(out);
}

constexpr int64_t kSamplesMost = 1000;

Python evaluations(const Evaluated& c) {
  if (c.length > kSamplesMost)
    throw NotWritten("the case has more samples than a reader reads: shrink it first");
  std::vector<std::string> gradients, batches;
  for (int round = 0; round < c.rounds; ++round) {
    std::vector<std::string> by_rank, batches_by_rank;
    for (int rank = 0; rank < c.world.size; ++rank) {
      by_rank.push_back(literal(static_cast<double>(gradient_of(c, round, rank))));
      batches_by_rank.push_back(batches_of(c, round, rank));
    }
    gradients.push_back(list(by_rank));
    batches.push_back(list(batches_by_rank));
  }
  return {.world = c.world.size,
          .values = table("GRADIENT", "round and rank: of its step of training", gradients) +
                    table("BATCHES", "round and rank", batches),
          .net =
              "def __init__(self, rank):\n    super().__init__()\n"
              "    self.w = torch.nn.Parameter(torch.tensor([40.0]))\n\n"
              "def forward(self, x):\n    return self.w * x\n",
          .program =
              filled(kRounds, {{"%CONTEXT", c.with_gradients ? "no_sync()" : "torch.no_grad()"}}),
          .held = "{\"collectives in the evaluation\": net.issued, \"w\": net.w}"};
}

std::string evaluations_in_words(const Evaluated& c) {
  return "trains a step, then evaluates " + lockstep::counted(c.length, "sample") + " " +
         (c.with_gradients ? "inside no_sync, with gradients enabled" : "without gradients") +
         (c.rounds == 1 ? "" : ", " + std::to_string(c.rounds) + " times");
}

}  // namespace

Families evaluation() {
  return {said("evaluation.counts_each_sample_once", evaluations, evaluations_in_words)};
}

}  // namespace lockstep::scenarios::standalone
