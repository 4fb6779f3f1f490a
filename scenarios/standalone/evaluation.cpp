#include "harness/base/text.h"
#include "reference/sampling.h"
#include "scenarios/standalone/family.h"

#include <algorithm>
#include <cstdlib>

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

class Evaluated {
 public:
  explicit Evaluated(const Json& value) : value_(value) {}

  int world() const { return value_.at("world").at("size").get<int>(); }
  int rounds() const { return value_.at("rounds").get<int>(); }
  bool has_gradients() const { return value_.at("with_gradients").get<bool>(); }
  int64_t length() const { return value_.at("length").get<int64_t>(); }

  double gradient(int round, int rank) const {
    return static_cast<double>((1 + std::abs(whole(Stream::cotangent, round, rank, 2))) * world());
  }

  // The inputs of a rank's samples, in batches.
  std::string batches(int round, int rank) const {
    const auto samples = reference::rank_order({.length = length(),
                                                .world_size = world(),
                                                .shuffle = value_.at("shuffle").get<bool>(),
                                                .drop_last = value_.at("drop_last").get<bool>(),
                                                .pad = value_.at("pad").get<bool>(),
                                                .seed = value_.at("seed").get<int64_t>(),
                                                .epoch = round},
                                               rank);
    const auto size = value_.at("batch_size").get<size_t>();
    std::vector<std::string> out;
    for (size_t at = 0; at < samples.size(); at += size) {
      std::vector<std::string> batch;
      for (size_t i = at; i < std::min(at + size, samples.size()); ++i)
        batch.push_back(
            literal(static_cast<double>(1 + std::abs(whole(Stream::input, 0, samples[i], 5)))));
      out.push_back(list(batch));
    }
    return list(out);
  }

 private:
  int64_t whole(Stream stream, int64_t round, int64_t index, int64_t most) const {
    return whole_at({.seed = value_.at("seed").get<uint64_t>(),
                     .stream = stream,
                     .step = static_cast<uint64_t>(round),
                     .index = static_cast<uint64_t>(index)},
                    most);
  }

  const Json& value_;
};

constexpr int64_t kSamplesMost = 1000;

Python evaluations(const Json& value) {
  const Evaluated c(value);
  if (c.length() > kSamplesMost)
    throw NotWritten("the case has more samples than a reader reads: shrink it first");
  std::vector<std::string> gradients, batches;
  for (int round = 0; round < c.rounds(); ++round) {
    std::vector<std::string> by_rank, batches_by_rank;
    for (int rank = 0; rank < c.world(); ++rank) {
      by_rank.push_back(literal(c.gradient(round, rank)));
      batches_by_rank.push_back(c.batches(round, rank));
    }
    gradients.push_back(list(by_rank));
    batches.push_back(list(batches_by_rank));
  }
  return {.world = c.world(),
          .values = table("GRADIENT", "round and rank: of its step of training", gradients) +
                    table("BATCHES", "round and rank", batches),
          .net =
              "def __init__(self, rank):\n    super().__init__()\n"
              "    self.w = torch.nn.Parameter(torch.tensor([40.0]))\n\n"
              "def forward(self, x):\n    return self.w * x\n",
          .program =
              filled(kRounds, {{"%CONTEXT", c.has_gradients() ? "no_sync()" : "torch.no_grad()"}}),
          .held = "{\"collectives in the evaluation\": net.issued, \"w\": net.w}"};
}

std::string evaluations_in_words(const Json& value) {
  const Evaluated c(value);
  return "trains a step, then evaluates " + counted(c.length(), "sample") + " " +
         (c.has_gradients() ? "inside no_sync, with gradients enabled" : "without gradients") +
         (c.rounds() == 1 ? "" : ", " + std::to_string(c.rounds()) + " times");
}

}  // namespace

Families evaluation() {
  return {{"evaluation.counts_each_sample_once", evaluations, evaluations_in_words}};
}

}  // namespace lockstep::scenarios::standalone
