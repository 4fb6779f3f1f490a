// Scenarios of buffers: each forward changes them by what its own rank has.
#include "scenarios/buffers/saved.h"
#include "scenarios/cases/stateful.h"
#include "scenarios/standalone/family.h"
#include "scenarios/standalone/phrases.h"

namespace lockstep::scenarios::standalone {

namespace {

constexpr const char* kFollow = R"(

def follow(nets):  # a forward that synchronises begins with rank 0's buffers
    for net in nets[1:]:
        for mine, first in zip(net.buffers(), nets[0].buffers()):
            mine.copy_(first)

)";

std::string forward_text(ForwardKind kind, size_t f, bool synchronises) {
  const auto number = std::to_string(f);
  const std::string call = "output = model(X[" + number + "][rank]).sum()\n";
  std::string out = kind == ForwardKind::eval ? "model.eval()\n" : "model.train()\n";
  if (synchronises) out += "yield None, follow\n";
  if (kind == ForwardKind::no_grad) out += "with torch.no_grad():\n    ";
  if (kind == ForwardKind::no_sync) out += "with no_sync():\n    ";
  out += call + "yield \"after forward " + number + "\", None\n";
  if (kind == ForwardKind::no_grad) return out;
  out += "total = total + output\n";
  if (kind == ForwardKind::held) return out;
  out += std::string(kind == ForwardKind::no_sync ? "with no_sync():\n    " : "") +
         "total.backward()\ntotal = 0\n";
  return out + "yield \"after backward " + number + "\", None\n";
}

// `source` has the model, which puts its buffers as a forward begins into `seen`; `x` is an
// expression of the inputs, by forward and rank.
Python followed(const Stateful& c, Python source, const std::string& x) {
  const auto kinds = forwards_of(c);
  const auto gates = synchronised(c);
  source.world = c.world.size;
  source.options = arguments(c.options);
  source.values = "X = " + x + "  # by forward and rank\n" + source.values + kFollow;
  source.program = "total = 0\n";
  for (size_t f = 0; f < kinds.size(); ++f) source.program += forward_text(kinds[f], f, gates[f]);
  source.held =
      "{**dict(net.named_buffers()), **{f\"{name} as forward began\": each for name, each in "
      "net.seen.items()}}";
  return source;
}

std::string forwards_in_words(const Stateful& c) {
  std::vector<std::string> parts;
  for (const auto kind : forwards_of(c)) {
    if (kind == ForwardKind::synced) parts.emplace_back("a forward and a backward");
    if (kind == ForwardKind::held)
      parts.emplace_back("a forward whose backward waits for the next one's");
    if (kind == ForwardKind::no_sync) parts.emplace_back("a forward and a backward inside no_sync");
    if (kind == ForwardKind::no_grad) parts.emplace_back("a forward without gradients");
    if (kind == ForwardKind::eval)
      parts.emplace_back("a forward in evaluation mode and a backward");
  }
  return "wraps a model whose forwards change its buffers; " + in_order(parts);
}

constexpr const char* kNormalised = R"(def __init__(self, rank):
    super().__init__()
    self.conv = torch.nn.Conv2d(3, 5, 3, padding=1)
    self.norm = torch.nn.BatchNorm2d(5, momentum=1 / 8)
    torch.manual_seed(rank)
    with torch.no_grad():
        for each in (*self.parameters(), self.norm.running_mean):
            each.copy_(torch.randint(-2, 3, each.shape))
        self.norm.running_var.fill_(1 + rank)
        self.norm.num_batches_tracked.fill_(10 * rank)
    self.to(X[0][0].dtype)

def forward(self, x):
    self.seen = {name: each.clone() for name, each in self.named_buffers()}
    return self.norm(self.conv(x))
)";

Python running_statistics(const Stateful& c) {
  std::vector<int64_t> samples;
  for (int rank = 0; rank < c.world.size; ++rank) samples.push_back(samples_of(c, rank));
  const std::string dtype = "dtype=torch." + std::string(word_of(c.dtype));
  const std::string batch = c.values == Values::exact
                                ? "torch.full((n, 3, 4, 4), rank % 2, " + dtype + ")"
                                : "torch.rand((n, 3, 4, 4), " + dtype + ")";
  return followed(c, {.values = "", .net = kNormalised, .program = "", .tolerance = 1e-5},
                  "[[" + batch + " for rank, n in enumerate(" + list(samples) +
                      ")] for _ in range(" + std::to_string(forwards_of(c).size()) + ")]");
}

constexpr const char* kCounting = R"(def __init__(self, rank):
    super().__init__()
    self.weight = torch.nn.Parameter(torch.ones(1))
    for name in ("float32", "float64", "int64", "int32", "int16", "int8", "uint8", "bool"):
        start = rank % 2 + (2**53 + 1 if name == "int64" else 0)
        self.register_buffer(f"count_{name}", torch.full((2,), start, dtype=getattr(torch, name)))

def forward(self, x):
    self.seen = {name: each.clone() for name, each in self.named_buffers()}
    for name, each in list(self.named_buffers()) if self.training else ():
        counted = each ^ (len(x) % 2 == 1) if each.dtype == torch.bool else each + len(x)
        %WRITE
    return x * self.weight
)";

Python every_kind(const Stateful& c) {
  std::vector<std::string> inputs;
  for (int rank = 0; rank < c.world.size; ++rank)
    inputs.push_back("torch.ones(" + std::to_string(samples_of(c, rank)) + ", 1)");
  const auto net =
      filled(kCounting,
             {{"%WRITE", c.reassigned ? "setattr(self, name, counted)" : "each.copy_(counted)"}});
  return followed(c, {.net = net, .program = ""},
                  "[" + list(inputs) + "] * " + std::to_string(forwards_of(c).size()));
}

// --- buffers.saved_values_do_not_change_unseen --------------------------------------------------

namespace saved = buffers_saved_values;

// One process changes no buffer of a graph that is kept. Where the broadcast does, in an
// evaluation, it depends on the buffers' bits whether a rank has to throw.
Python saved_values(const saved::Saved& c) {
  constexpr int64_t kSamples = 3, kChannels = 2, kSide = 2;
  if (c.norm == saved::NormKind::own)
    throw NotWritten("the normalising layer of this case is the subject's own");
  const bool is_batch_norm = c.norm == saved::NormKind::batch;
  const auto forwards = forwards_of(c);
  std::string program = "torch.manual_seed(rank)\ntotal = 0\n";
  for (size_t f = 0; f < forwards.size(); ++f) {
    if (evaluates(forwards[f]) && is_kept(c, f) && f + 1 < forwards.size() && is_batch_norm)
      throw NotWritten(
          "in an evaluation whose graph is kept the bits of buffers decide who has to throw");
    program += std::string(evaluates(forwards[f]) ? "model.eval()\n" : "model.train()\n") +
               (is_local(forwards[f]) ? "with no_sync():\n    " : "") +
               "output = model(torch.randn(SHAPE))\n";
    if (is_kept(c, f)) program += "total = total + (output * torch.randn(SHAPE)).sum()\n";
  }
  program +=
      "net.error = None\ntry:\n    total.backward()\nexcept RuntimeError as error:\n"
      "    net.error = str(error)\nyield \"after backward\", None\n";
  std::vector<int64_t> shape{kSamples, kChannels};
  shape.resize(2 + static_cast<size_t>(c.axes), kSide);
  const auto layer = is_batch_norm ? "BatchNorm" + std::to_string(c.axes) + "d(2)"
                                   : "InstanceNorm" + std::to_string(c.axes) +
                                         "d(2, affine=True, track_running_stats=True)";
  return {.world = c.world.size,
          .values = "SHAPE = " + list(shape) + "\n",
          .net =
              "def __init__(self, rank):\n    super().__init__()\n"
              "    self.scale = torch.nn.Parameter(torch.ones(1))\n    self.norm = torch.nn." +
              layer + "\n\ndef forward(self, x):\n    return self.norm(x * self.scale)\n",
          .program = program,
          .held = "{\"error of the backward\": net.error}",
          .timeout_s = 20};
}

std::string saved_values_in_words(const saved::Saved& c) {
  using enum saved::Forward;
  const std::map<saved::Forward, std::string> forwards{
      {train, "training"},
      {evaluate, "evaluation"},
      {train_and_drop, "training (dropped)"},
      {evaluate_and_drop, "evaluation (dropped)"},
      {train_in_no_sync, "training inside no_sync"},
      {evaluate_in_no_sync, "evaluation inside no_sync"}};
  return "wraps a normalising layer; forwards in " + in_order(each_in(forwards_of(c), forwards)) +
         "; then one backward through all outputs that were not dropped";
}

}  // namespace

Families buffers() {
  return {said("buffers.follow_rank_zero", running_statistics, forwards_in_words),
          said("buffers.lag_behind_local_forwards", running_statistics, forwards_in_words),
          said("buffers.every_kind_is_followed", every_kind, forwards_in_words),
          said("buffers.saved_values_do_not_change_unseen", saved_values, saved_values_in_words)};
}

}  // namespace lockstep::scenarios::standalone
