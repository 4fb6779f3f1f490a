#include "harness/base/text.h"
#include "scenarios/join/joined.h"
#include "scenarios/join/uneven.h"
#include "scenarios/standalone/family.h"
#include "scenarios/standalone/optimizer_text.h"
#include "scenarios/standalone/training.h"

#include <algorithm>
#include <numeric>

namespace lockstep::scenarios::standalone {

namespace {

using join::Joined;
using join_uneven_inputs_are_reported::Uneven;

// How many inputs each rank has.
template <class C>
std::vector<int64_t> inputs_by_rank(const C& c) {
  std::vector<int64_t> out;
  for (int rank = 0; rank < c.world.size; ++rank) out.push_back(inputs_of(c, rank));
  return out;
}

// "on [3, 1] inputs, of which those of rank 1 end first".
std::string inputs_in_words(const std::vector<int64_t>& by_rank) {
  const auto least = *std::min_element(by_rank.begin(), by_rank.end());
  std::vector<std::string> first;
  for (size_t rank = 0; rank < by_rank.size(); ++rank)
    if (by_rank[rank] == least) first.push_back(std::to_string(rank));
  return "on " + list(by_rank) + " inputs" +
         (first.size() == by_rank.size()
              ? ""
              : ", of which those of rank" + std::string(first.size() > 1 ? "s " : " ") +
                    joined(first, ",") + " end first");
}

// --- join.uneven_inputs_are_reported ------------------------------------------------------------

constexpr const char* kUneven = R"(net.stopped, net.taken = False, 0
inputs = min(INPUTS) if model is net else INPUTS[rank]
try:
    with nullcontext() if model is net else model.join(throw_on_early_termination=True):
        for i in range(inputs):
            if i % WINDOW == 0:
                net.zero_grad()
            is_last = (i + 1) % WINDOW == 0
            with nullcontext() if is_last else no_sync():
                loss(model, i, rank).backward()
            net.taken += 1
            if is_last:
                yield f"input {i}", average
except RuntimeError as error:
    net.stopped = True
    print(f"rank {rank}: {error}", flush=True)
if model is net:  # every rank receives an error where some have more inputs, and none else
    net.stopped = len(set(INPUTS)) > 1
net.zero_grad()
yield "after the join", None
for m in range(WINDOW):
    with nullcontext() if m + 1 == WINDOW else no_sync():
        loss(model, min(INPUTS) // WINDOW * WINDOW + m, rank).backward()
yield "after the next backward", average
)";

Python uneven(const Uneven& c) {
  if (c.joins_again) throw NotWritten("cases with a second join are not written as programs yet");
  if (c.probes)
    throw NotWritten("cases with forwards without gradients are not written as programs yet");
  if (c.normalises)
    throw NotWritten("PyTorch's SyncBatchNorm runs on GPUs alone, and the case has one");
  auto source = training_python(training_of(c));
  source.values = "INPUTS = " + list(inputs_by_rank(c)) +
                  "  # of each rank\nWINDOW = " + std::to_string(c.micro_batches) + "\n" +
                  source.values;
  source.program = kUneven;
  source.held =
      "{\"received an error\": net.stopped, \"inputs\": net.taken, **" + source.held + "}";
  source.timeout_s = 20;
  return source;
}

std::string uneven_in_words(const Uneven& c) {
  return network_in_words(training_of(c)) + "; in a join ranks train " +
         inputs_in_words(inputs_by_rank(c)) +
         (c.micro_batches == 1 ? ""
                               : ", in windows of " + std::to_string(c.micro_batches) +
                                     ", whose last pass alone is outside no_sync") +
         "; then all train one step more";
}

// --- join.joinables_are_shadowed ----------------------------------------------------------------

constexpr const char* kJoinables = R"(kind, arguments = %OPTIMIZER
optimizer = kind(net.parameters(), **arguments)
if model is not net:
    optimizer = ZeroRedundancyOptimizer(net.parameters(), optimizer_class=kind, **arguments)


def step_of(step, meet):
    net.zero_grad()
    if step >= INPUTS_MOST or step < INPUTS[rank]:
        model(BATCHES[step][rank]).backward()
    yield None, meet
    for _ in range(%UPDATES):
        optimizer.step()


with nullcontext() if model is net else Join([model, optimizer], %DIVISOR):
    for step in range(INPUTS_MOST if model is net else INPUTS[rank]):
        yield from step_of(step, %AVERAGE_IN_JOIN)
yield "after the join", None
yield from step_of(INPUTS_MOST, average)
yield "after one more step of all ranks", None
)";

constexpr const char* kActive = R"(

def average_of_active(nets):  # of the ranks that have inputs
    for same in zip(*(net.parameters() for net in nets)):
        gradients = [each.grad for each in same if each.grad is not None]
        for each in same if gradients else ():
            each.grad = sum(gradients) / len(gradients)

)";

constexpr const char* kDependent = R"(def __init__(self, rank):
    super().__init__()
    for i, value in enumerate(START):
        self.register_parameter(f"w{i}", torch.nn.Parameter(value.clone()))

def forward(self, batch):  # whose gradient depends on the parameters
    flat = torch.cat([each.flatten() for each in self.parameters()])
    return (flat * (batch + (flat.detach() * 4).round().clamp(-3, 3)) * MULTIPLE).sum()
)";

Python joinables(const Joined& c) {
  if (c.own_sums != 0) throw NotWritten("a join of sums of the program's own");
  const int most = joined_steps(c);
  const auto sizes = c.sizes.empty() ? std::vector<int>{1} : c.sizes;
  const int64_t elements = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
  std::vector<std::string> starts, batches;
  for (size_t p = 0; p < sizes.size(); ++p)
    starts.push_back(literal(
        real_numbers({.seed = c.seed, .stream = Stream::parameter, .index = uint64_t{p} << 32},
                     {sizes[p]}, Dtype::float64)));
  for (int step = 0; step <= most; ++step) {
    std::vector<std::string> ranks;
    for (int rank = 0; rank < c.world.size; ++rank)
      ranks.push_back(literal(whole_numbers({.seed = c.seed,
                                             .stream = Stream::input,
                                             .rank = static_cast<uint64_t>(rank),
                                             .step = static_cast<uint64_t>(step)},
                                            3, {elements}, Dtype::float64)));
    batches.push_back(list(ranks));
  }
  int64_t multiple = 1;
  for (int divisor = 2; divisor <= c.world.size; ++divisor)
    multiple = std::lcm(multiple, int64_t{divisor});
  const bool is_live = c.divisor == JoinKind::live;
  const auto optimizer = optimizer_text(c.optimizer);
  const auto comma = optimizer.find(',');
  return {.world = c.world.size,
          .values =
              "from torch.distributed.algorithms.join import Join\n"
              "from torch.distributed.optim import ZeroRedundancyOptimizer\n\n"
              "INPUTS = " +
              list(inputs_by_rank(c)) + "  # of each rank\nINPUTS_MOST = " + std::to_string(most) +
              "\nSTART = " + list(starts) + "\n" + table("BATCHES", "step and rank", batches) +
              "MULTIPLE = " + std::to_string(multiple) +
              "  # no average of such gradients rounds\n" + (is_live ? kActive : ""),
          .net = kDependent,
          .options = arguments({.bucket_cap_bytes = c.bucket_cap_bytes,
                                .gradient_as_bucket_view = c.gradient_as_bucket_view}),
          .program =
              filled(kJoinables, {{"%OPTIMIZER", optimizer.substr(0, comma) + ", dict(" +
                                                     optimizer.substr(comma + 2) + ")"},
                                  {"%DIVISOR", is_live ? "divide_by_initial_world_size=False"
                                                       : "divide_by_initial_world_size=True"},
                                  {"%AVERAGE_IN_JOIN", is_live ? "average_of_active" : "average"},
                                  {"%UPDATES", c.steps_twice ? "2" : "1"}}),
          .held = "dict(net.named_parameters())",
          .tolerance = 1e-9,
          .timeout_s = 20};
}

std::string joinables_in_words(const Joined& c) {
  return "in a join of a wrapped model and a sharded optimizer, ranks train " +
         inputs_in_words(inputs_by_rank(c)) + "; then all train one step more" +
         (c.own_sums == 0 ? "" : "; the program's own sums are shadowed too");
}

}  // namespace

Families joins() {
  return {said("join.uneven_inputs_are_reported", uneven, uneven_in_words),
          said("join.joinables_are_shadowed", joinables, joinables_in_words)};
}

}  // namespace lockstep::scenarios::standalone
