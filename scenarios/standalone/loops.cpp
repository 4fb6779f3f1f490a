// training.is_one_process, and a plain BatchNorm under DistributedDataParallel.
#include "scenarios/standalone/family.h"
#include "scenarios/standalone/optimizer_text.h"
#include "scenarios/standalone/phrases.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace lockstep::scenarios::standalone {

namespace {

constexpr const char* kFed = R"(def __init__(self, rank):
    super().__init__()
    for i, value in enumerate(START[rank]):
        self.register_parameter(f"w{i}", torch.nn.Parameter(value.clone()))

def forward(self, batch):  # a parameter's value is part of its next gradient
    loss, at = 0, 0
    for each in self.parameters():
        own = (each.detach() * 4).round().clamp(-8, 8) * WORLD
        loss = loss + (each * (batch[at:at + len(each)].to(each.dtype) + own)).sum().double()
        at += len(each)
    return loss
)";

constexpr const char* kLoop = R"(kind, arguments = %OPTIMIZER
optimizer = kind(net.parameters(), **arguments)
%SCHEDULE
scale, good_steps = %SCALE, 0
for step in range(%STEPS):
    optimizer.zero_grad(%ZERO)
    for m in range(%WINDOW):
        with nullcontext() if m + 1 == %WINDOW else no_sync():
            (model(X[step][m][rank]) * scale).backward()
    yield f"step {step}, gradients", average
%UPDATE
%AFTER
    yield f"step {step}, updated", None
)";

constexpr const char* kUpdate = R"(    %CLIP
    optimizer.step())";

constexpr const char* kScaledUpdate = R"(    for each in net.parameters():
        each.grad.div_(scale)
    is_finite = all(each.grad.isfinite().all() for each in net.parameters())
    if is_finite:
        %CLIP
        optimizer.step()
    good_steps = good_steps + 1 if is_finite else 0
    scale = scale if is_finite else scale / 2
    if good_steps == 2:
        scale, good_steps = scale * 2, 0)";

std::string clip_text(const std::string& clip) {
  if (clip == "norm") return "torch.nn.utils.clip_grad_norm_(net.parameters(), 8)";
  return clip == "value" ? "torch.nn.utils.clip_grad_value_(net.parameters(), 3)"
                         : "pass  # nothing is clipped";
}

// A rank's micro-batch: the numbers that it adds to the gradients of all parameters.
Numbers batch_of(const Json& value, int step, int micro_batch, int rank, int64_t elements) {
  const auto world = value.at("world").at("size").get<int>();
  auto batch = whole_numbers({.seed = value.at("seed").get<uint64_t>(),
                              .stream = Stream::input,
                              .rank = static_cast<uint64_t>(rank),
                              .step = static_cast<uint64_t>(step),
                              .index = static_cast<uint64_t>(micro_batch) << 32},
                             2, {elements}, Dtype::float64);
  for (auto& each : batch.values) each *= world;
  const auto& overflow = value.at("overflow");
  if (value.at("scales_loss").get<bool>() && step > 0 && overflow.at("step").get<int>() == step &&
      micro_batch == 0 && rank == overflow.at("rank").get<int>() % world)
    batch.values[batch.values.size() / 2] = std::numeric_limits<double>::infinity();
  return batch;
}

Python loop(const Json& value) {
  if (value.at("steps_in_backward").get<bool>())
    throw NotWritten("cases whose backward steps are not written as programs yet");
  if (value.at("begins_anew").get<int>() > 0)
    throw NotWritten("cases whose replica begins anew are not written as programs yet");
  const auto world = value.at("world").at("size").get<int>();
  auto sizes = value.at("sizes").get<std::vector<int64_t>>();
  if (sizes.empty()) sizes = {1};
  const auto dtypes = value.at("dtypes").get<std::vector<std::string>>();
  std::vector<std::string> starts, steps;
  for (int rank = 0; rank < world; ++rank) {
    std::vector<std::string> own;
    for (size_t p = 0; p < sizes.size(); ++p)
      own.push_back(literal(
          real_numbers({.seed = value.at("seed").get<uint64_t>(),
                        .stream = Stream::parameter,
                        .rank = static_cast<uint64_t>(rank),
                        .index = uint64_t{p} << 32},
                       {sizes[p]},
                       dtypes.empty() ? Dtype::float32
                                      : value_of_word<Dtype>(dtypes[p % dtypes.size()]).value())));
    starts.push_back(list(own));
  }
  const auto window = value.at("micro_batches").get<int>();
  for (int step = 0; step < value.at("steps").get<int>(); ++step) {
    std::vector<std::string> batches;
    for (int m = 0; m < window; ++m) {
      std::vector<std::string> ranks;
      for (int rank = 0; rank < world; ++rank)
        ranks.push_back(literal(batch_of(value, step, m, rank,
                                         std::accumulate(sizes.begin(), sizes.end(), int64_t{0}))));
      batches.push_back(list(ranks));
    }
    steps.push_back(list(batches));
  }
  const auto optimizer = optimizer_text(
      value_of_word<OptimizerKind>(value.at("optimizer").get<std::string>()).value());
  const auto comma = optimizer.find(',');
  const bool scales = value.at("scales_loss").get<bool>();
  const auto schedule = value.at("schedule").get<std::string>();
  const auto count = std::to_string(value.at("steps").get<int>());
  const std::string warm_up =
      "for group in optimizer.param_groups:\n    group[\"lr\"] = arguments[\"lr\"] * ";
  const std::string at_first = schedule == "steps"
                                   ? "schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)"
                               : schedule == "warmup" ? warm_up + "1 / " + count
                                                      : "";
  std::string later = schedule == "steps" ? "schedule.step()\n" : "";
  if (schedule == "warmup") later = warm_up + "(step + 2) / " + count + "\n";
  const auto update =
      filled(scales ? kScaledUpdate : kUpdate, {{"%CLIP", clip_text(value.at("clip"))}});
  return {
      .world = world,
      .values = table("START", "rank", starts) + table("X", "step, micro-batch and rank", steps),
      .net = kFed,
      .options =
          arguments({.bucket_cap_bytes = value.at("bucket_cap_bytes").get<int64_t>(),
                     .gradient_as_bucket_view = value.at("gradient_as_bucket_view").get<bool>()}),
      .program = filled(
          kLoop, {{"%OPTIMIZER",
                   optimizer.substr(0, comma) + ", dict(" + optimizer.substr(comma + 2) + ")"},
                  {"%SCHEDULE\n", at_first.empty() ? "" : at_first + "\n"},
                  {"%SCALE", scales ? "1024" : "1"},
                  {"%STEPS", count},
                  {"%ZERO", value.at("zero_in_place").get<bool>() ? "set_to_none=False" : ""},
                  {"%WINDOW", std::to_string(window)},
                  {"%UPDATE", update},
                  {"%AFTER\n", later.empty() ? "" : indented(later, 4)}}),
      .held =
          "{**{f\"{name}.grad\": each.grad for name, each in net.named_parameters()}, "
          "**dict(net.named_parameters())}",
      .tolerance = 1e-5};
}

std::string loop_in_words(const Json& value) {
  std::string out = steps_text(value) + " with " + value.at("optimizer").get<std::string>();
  if (value.at("micro_batches").get<int>() > 1)
    out += ", each of " + std::to_string(value.at("micro_batches").get<int>()) +
           " micro-batches, all but the last inside no_sync";
  if (value.at("steps_in_backward").get<bool>()) out += ", whose step the backward itself makes";
  if (value.at("begins_anew").get<int>() > 0) out += ", a replica that begins anew";
  if (value.at("schedule") != "constant") out += ", a learning rate that changes";
  if (value.at("clip") != "none") out += ", clipped gradients";
  if (value.at("scales_loss").get<bool>()) out += ", a scaled loss";
  return out;
}

// --- sync_batch_norm.keeps_buffers_equal_under_ddp ----------------------------------------------

constexpr const char* kPlainNorm = R"(def __init__(self, rank):
    super().__init__()
    self.conv = torch.nn.Conv2d(1, 3, 1)
    self.norm = torch.nn.BatchNorm2d(3, eps=2**-4, momentum=2**-3)
    with torch.no_grad():
        self.conv.weight.copy_(torch.tensor([1.0, 2.0, 3.0]).view(3, 1, 1, 1))
        self.conv.bias.copy_(torch.tensor([0.0, 1.0, 2.0]))

def forward(self, x):
    return self.norm(self.conv(x))
)";

Python plain_norm(const Json& value) {
  if (value.at("norm") != "plain") throw NotWritten("PyTorch's SyncBatchNorm runs on GPUs alone");
  const auto world = value.at("world").at("size").get<int>();
  const auto samples = value.at("samples").get<std::vector<int>>();
  std::vector<std::string> batches;
  for (int rank = 0; rank < world; ++rank) {
    const auto count = samples.empty() ? 2 : samples[static_cast<size_t>(rank) % samples.size()];
    batches.push_back("torch.full((" + std::to_string(count) + ", 1, 2, 2), " +
                      literal(rank % 2 * value.at("distance").get<double>()) + ")");
  }
  const bool broadcasts = value.at("broadcast_buffers").get<bool>();
  return {.world = world,
          .values = table("X", "rank", batches) +
                    "\n\ndef follow(nets):  # a forward begins with rank 0's buffers\n    for net "
                    "in nets[1:]:\n"
                    "        for mine, first in zip(net.buffers(), nets[0].buffers()):\n"
                    "            mine.copy_(first)\n\n",
          .net = kPlainNorm,
          .options = arguments({.broadcast_buffers = broadcasts}),
          .program = "for step in range(" + std::to_string(value.at("steps").get<int>()) +
                     "):\n    net.zero_grad()\n    yield None, " +
                     (broadcasts ? "follow" : "None") +
                     "\n    model(X[rank]).square().sum().backward()\n    yield f\"after step "
                     "{step}\", None\n",
          .held = "dict(net.named_buffers())",
          .tolerance = 1e-5};
}

std::string norm_in_words(const Json& value) {
  return std::string("wraps a convolution and a ") +
         (value.at("norm") == "plain" ? "BatchNorm" : "SyncBatchNorm") + ", " + steps_text(value) +
         " on batches that differ by rank";
}

}  // namespace

Families loops() {
  return {{"training.is_one_process", loop, loop_in_words},
          {"sync_batch_norm.keeps_buffers_equal_under_ddp", plain_norm, norm_in_words}};
}

}  // namespace lockstep::scenarios::standalone
