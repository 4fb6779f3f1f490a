// training.is_one_process, and a plain BatchNorm under DistributedDataParallel.
#include "scenarios/standalone/family.h"
#include "scenarios/standalone/optimizer_text.h"
#include "scenarios/standalone/phrases.h"
#include "scenarios/sync_batch_norm/under_ddp.h"
#include "scenarios/training/loop.h"

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

using training::Clip;
using training::Loop;
using training::RateSchedule;

std::string clip_text(Clip clip) {
  if (clip == Clip::norm) return "torch.nn.utils.clip_grad_norm_(net.parameters(), 8)";
  return clip == Clip::value ? "torch.nn.utils.clip_grad_value_(net.parameters(), 3)"
                             : "pass  # nothing is clipped";
}

Numbers numbers_of(const at::Tensor& values, Dtype dtype) {
  const auto flat = values.contiguous();
  return {values.sizes().vec(),
          {flat.data_ptr<double>(), flat.data_ptr<double>() + flat.numel()},
          dtype};
}

// How the learning rate changes: what is said before the loop, and at the end of each step.
struct Schedule {
  std::string at_first, later;
};
Schedule schedule_text(const Loop& c) {
  const auto count = std::to_string(c.steps);
  const std::string warm_up =
      "for group in optimizer.param_groups:\n    group[\"lr\"] = arguments[\"lr\"] * ";
  if (c.schedule == RateSchedule::steps)
    return {"schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)\n", "schedule.step()\n"};
  if (c.schedule == RateSchedule::warmup)
    return {warm_up + "1 / " + count + "\n", warm_up + "(step + 2) / " + count + "\n"};
  return {};
}

Python loop(const Loop& c) {
  if (c.steps_in_backward)
    throw NotWritten("cases whose backward steps are not written as programs yet");
  if (begins_anew(c))
    throw NotWritten("cases whose replica begins anew are not written as programs yet");
  std::vector<std::string> starts, steps;
  for (int rank = 0; rank < c.world.size; ++rank) {
    std::vector<std::string> own;
    for (size_t p = 0; p < parameter_count(c); ++p)
      own.push_back(
          literal(numbers_of(start_of(c, rank, p),
                             c.dtypes.empty() ? Dtype::float32 : c.dtypes[p % c.dtypes.size()])));
    starts.push_back(list(own));
  }
  for (int step = 0; step < c.steps; ++step) {
    std::vector<std::string> batches;
    for (int m = 0; m < c.micro_batches; ++m) {
      std::vector<std::string> ranks;
      for (int rank = 0; rank < c.world.size; ++rank)
        ranks.push_back(literal(numbers_of(batch_of(c, step, m, rank), Dtype::float64)));
      batches.push_back(list(ranks));
    }
    steps.push_back(list(batches));
  }
  const auto optimizer = optimizer_text(c.optimizer);
  const auto comma = optimizer.find(',');
  const auto schedule = schedule_text(c);
  const auto update =
      filled(scales_loss(c) ? kScaledUpdate : kUpdate, {{"%CLIP", clip_text(c.clip)}});
  return {
      .world = c.world.size,
      .values = table("START", "rank", starts) + table("X", "step, micro-batch and rank", steps),
      .net = kFed,
      .options = arguments({.bucket_cap_bytes = c.bucket_cap_bytes,
                            .gradient_as_bucket_view = c.gradient_as_bucket_view}),
      .program =
          filled(kLoop, {{"%OPTIMIZER", optimizer.substr(0, comma) + ", dict(" +
                                            optimizer.substr(comma + 2) + ")"},
                         {"%SCHEDULE\n", schedule.at_first},
                         {"%SCALE", scales_loss(c) ? "1024" : "1"},
                         {"%STEPS", std::to_string(c.steps)},
                         {"%ZERO", c.zero_in_place ? "set_to_none=False" : ""},
                         {"%WINDOW", std::to_string(c.micro_batches)},
                         {"%UPDATE", update},
                         {"%AFTER\n", schedule.later.empty() ? "" : indented(schedule.later, 4)}}),
      .held =
          "{**{f\"{name}.grad\": each.grad for name, each in net.named_parameters()}, "
          "**dict(net.named_parameters())}",
      .tolerance = 1e-5};
}

std::string loop_in_words(const Loop& c) {
  std::string out = steps_in_words(c.steps) + " with " + word_of(c.optimizer);
  if (c.micro_batches > 1)
    out += ", each of " + std::to_string(c.micro_batches) +
           " micro-batches, all but the last inside no_sync";
  if (c.steps_in_backward) out += ", whose step the backward itself makes";
  if (c.begins_anew > 0) out += ", a replica that begins anew";
  if (c.schedule != RateSchedule::constant) out += ", a learning rate that changes";
  if (c.clip != Clip::none) out += ", clipped gradients";
  if (c.scales_loss) out += ", a scaled loss";
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

using sync_batch_norm::UnderDdp;

bool is_plain(const UnderDdp& c) {
  return c.norm == sync_batch_norm::NormKind::plain;
}

Python plain_norm(const UnderDdp& c) {
  if (!is_plain(c)) throw NotWritten("PyTorch's SyncBatchNorm runs on GPUs alone");
  std::vector<std::string> batches;
  for (int rank = 0; rank < c.world.size; ++rank) {
    const auto count =
        c.samples.empty() ? 2 : c.samples[static_cast<size_t>(rank) % c.samples.size()];
    batches.push_back("torch.full((" + std::to_string(count) + ", 1, 2, 2), " +
                      literal(static_cast<double>(rank % 2 * c.distance)) + ")");
  }
  return {.world = c.world.size,
          .values = table("X", "rank", batches) +
                    "\n\ndef follow(nets):  # a forward begins with rank 0's buffers\n    for net "
                    "in nets[1:]:\n"
                    "        for mine, first in zip(net.buffers(), nets[0].buffers()):\n"
                    "            mine.copy_(first)\n\n",
          .net = kPlainNorm,
          .options = arguments({.broadcast_buffers = c.broadcast_buffers}),
          .program = "for step in range(" + std::to_string(c.steps) +
                     "):\n    net.zero_grad()\n    yield None, " +
                     (c.broadcast_buffers ? "follow" : "None") +
                     "\n    model(X[rank]).square().sum().backward()\n    yield f\"after step "
                     "{step}\", None\n",
          .held = "dict(net.named_buffers())",
          .tolerance = 1e-5};
}

std::string norm_in_words(const UnderDdp& c) {
  return std::string("wraps a convolution and a ") + (is_plain(c) ? "BatchNorm" : "SyncBatchNorm") +
         ", " + steps_in_words(c.steps) + " on batches that differ by rank";
}

}  // namespace

Families loops() {
  return {said("training.is_one_process", loop, loop_in_words),
          said("sync_batch_norm.keeps_buffers_equal_under_ddp", plain_norm, norm_in_words)};
}

}  // namespace lockstep::scenarios::standalone
