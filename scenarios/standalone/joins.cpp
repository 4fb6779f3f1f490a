#include "harness/base/text.h"
#include "scenarios/standalone/family.h"
#include "scenarios/standalone/optimizer_text.h"
#include "scenarios/standalone/training.h"

#include <algorithm>
#include <numeric>

namespace lockstep::scenarios::standalone {

namespace {

int world_size_of(const Json& value) {
  return value.at("world").at("size").get<int>();
}

// How many inputs each rank has; `otherwise` where the case lists none.
std::vector<int64_t> inputs_by_rank(const Json& value, int64_t otherwise) {
  const auto listed = value.at("inputs").get<std::vector<int64_t>>();
  std::vector<int64_t> out;
  for (int rank = 0; rank < world_size_of(value); ++rank)
    out.push_back(listed.empty() ? otherwise : listed[static_cast<size_t>(rank) % listed.size()]);
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

// The windows that all ranks have in common, and one after the join.
Training windows_of(const Json& value) {
  const auto inputs = inputs_by_rank(value, 2);
  const auto micro_batches = value.at("micro_batches").get<int>();
  const auto common = static_cast<int>(*std::min_element(inputs.begin(), inputs.end()));
  return {.world = {.size = world_size_of(value)},
          .steps = common / micro_batches + 1,
          .network = from_json<NetworkSpec>(value.at("network"), "network"),
          .batch_log2 = value.at("batch_log2").get<int>(),
          .shares = value.at("shares").get<std::vector<int>>(),
          .micro_batches = micro_batches,
          .options = from_json<WrapOptions>(value.at("options"), "options"),
          .dtype = value_of_word<Dtype>(value.at("dtype").get<std::string>()).value(),
          .values = value_of_word<Values>(value.at("values").get<std::string>()).value(),
          .seed = value.at("seed").get<uint64_t>()};
}

Python uneven(const Json& value) {
  if (value.at("joins_again").get<bool>())
    throw NotWritten("cases with a second join are not written as programs yet");
  if (value.at("probes").get<bool>())
    throw NotWritten("cases with forwards without gradients are not written as programs yet");
  if (value.at("normalises").get<bool>())
    throw NotWritten("PyTorch's SyncBatchNorm runs on GPUs alone, and the case has one");
  auto source = training_python(windows_of(value));
  source.values = "INPUTS = " + list(inputs_by_rank(value, 2)) + "  # of each rank\nWINDOW = " +
                  std::to_string(value.at("micro_batches").get<int>()) + "\n" + source.values;
  source.program = kUneven;
  source.held =
      "{\"received an error\": net.stopped, \"inputs\": net.taken, **" + source.held + "}";
  source.timeout_s = 20;
  return source;
}

std::string uneven_in_words(const Json& value) {
  const auto window = value.at("micro_batches").get<int>();
  return network_in_words(windows_of(value)) + "; in a join ranks train " +
         inputs_in_words(inputs_by_rank(value, 2)) +
         (window == 1 ? ""
                      : ", in windows of " + std::to_string(window) +
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

Python joinables(const Json& value) {
  if (value.at("own_sums") != 0) throw NotWritten("a join of sums of the program's own");
  const auto inputs = inputs_by_rank(value, 1);
  const auto most = *std::max_element(inputs.begin(), inputs.end());
  auto sizes = value.at("sizes").get<std::vector<int64_t>>();
  if (sizes.empty()) sizes = {1};
  const auto seed = value.at("seed").get<uint64_t>();
  std::vector<std::string> starts, batches;
  for (size_t p = 0; p < sizes.size(); ++p)
    starts.push_back(literal(
        real_numbers({.seed = seed, .stream = Stream::parameter, .index = uint64_t{p} << 32},
                     {sizes[p]}, Dtype::float64)));
  for (int64_t step = 0; step <= most; ++step) {
    std::vector<std::string> ranks;
    for (int rank = 0; rank < world_size_of(value); ++rank)
      ranks.push_back(literal(whole_numbers(
          {.seed = seed,
           .stream = Stream::input,
           .rank = static_cast<uint64_t>(rank),
           .step = static_cast<uint64_t>(step)},
          3, {std::accumulate(sizes.begin(), sizes.end(), int64_t{0})}, Dtype::float64)));
    batches.push_back(list(ranks));
  }
  int64_t multiple = 1;
  for (int64_t divisor = 2; divisor <= world_size_of(value); ++divisor)
    multiple = std::lcm(multiple, divisor);
  const bool is_live = value.at("divisor") == "live";
  const auto optimizer = optimizer_text(
      value_of_word<OptimizerKind>(value.at("optimizer").get<std::string>()).value());
  const auto comma = optimizer.find(',');
  return {.world = world_size_of(value),
          .values =
              "from torch.distributed.algorithms.join import Join\n"
              "from torch.distributed.optim import ZeroRedundancyOptimizer\n\n"
              "INPUTS = " +
              list(inputs) + "  # of each rank\nINPUTS_MOST = " + std::to_string(most) +
              "\nSTART = " + list(starts) + "\n" + table("BATCHES", "step and rank", batches) +
              "MULTIPLE = " + std::to_string(multiple) +
              "  # no average of such gradients rounds\n" + (is_live ? kActive : ""),
          .net = kDependent,
          .options = arguments(
              {.bucket_cap_bytes = value.at("bucket_cap_bytes").get<int64_t>(),
               .gradient_as_bucket_view = value.at("gradient_as_bucket_view").get<bool>()}),
          .program =
              filled(kJoinables, {{"%OPTIMIZER", optimizer.substr(0, comma) + ", dict(" +
                                                     optimizer.substr(comma + 2) + ")"},
                                  {"%DIVISOR", is_live ? "divide_by_initial_world_size=False"
                                                       : "divide_by_initial_world_size=True"},
                                  {"%AVERAGE_IN_JOIN", is_live ? "average_of_active" : "average"},
                                  {"%UPDATES", value.at("steps_twice").get<bool>() ? "2" : "1"}}),
          .held = "dict(net.named_parameters())",
          .tolerance = 1e-9,
          .timeout_s = 20};
}

std::string joinables_in_words(const Json& value) {
  return "in a join of a wrapped model and a sharded optimizer, ranks train " +
         inputs_in_words(inputs_by_rank(value, 1)) + "; then all train one step more" +
         (value.at("own_sums") == 0 ? "" : "; the program's own sums are shadowed too");
}

}  // namespace

Families joins() {
  return {{"join.uneven_inputs_are_reported", uneven, uneven_in_words},
          {"join.joinables_are_shadowed", joinables, joinables_in_words}};
}

}  // namespace lockstep::scenarios::standalone
