// Scenarios of errors: parameters whose gradients some ranks lack, and a mistake of some rank.
#include "scenarios/errors/case.h"
#include "scenarios/standalone/family.h"
#include "scenarios/standalone/phrases.h"

namespace lockstep::scenarios::standalone {

namespace {

using errors::Erring;
using errors::LackKind;
using errors::MistakeKind;

int passes_of(const Erring& c) {
  return c.local_passes + 1;
}

bool finds_unused(const Erring& c) {
  return c.options.find_unused_parameters || c.options.static_graph;
}

// The word for how a pass of a rank lacks a parameter's gradient, or for its mistake; or nothing.
std::string how(const Erring& c, int step, int pass, int rank, size_t parameter) {
  const bool is_local = pass + 1 < passes_of(c);
  if (!is_local && errs(c, step, rank) && mistaken_parameter(c) == parameter)
    return word_of(c.mistake.kind);
  const auto lack = lack_of(c, step, rank, parameter, is_local);
  return lack ? word_of(*lack) : "";
}

// True if every rank has to receive an error in this step.
bool fails(const Erring& c, int step) {
  for (int rank = 0; rank < c.world.size; ++rank) {
    if (errs(c, step, rank)) return true;
    for (size_t p = 0; p < parameter_count(c) && !finds_unused(c); ++p)
      if (const auto lack = lack_of(c, step, rank, p, /*local=*/false);
          lack == LackKind::unused || lack == LackKind::left_out)
        return true;
  }
  return false;
}

constexpr const char* kLackingPassage = R"(

class Passage(torch.autograd.Function):  # behind a parameter
    @staticmethod
    def forward(ctx, x, how):
        ctx.how = how
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        if ctx.how == "throw_in_backward":
            raise RuntimeError("planted")
        return None if ctx.how == "undefined" else gradient, None

)";

constexpr const char* kTerms = R"(def __init__(self, rank):
    super().__init__()
    self.first = %FIRST
    for i, size in enumerate(SIZES):
        self.register_parameter(f"w{i}", torch.nn.Parameter(torch.ones(size, 1, dtype=torch.%DTYPE)))

def forward(self, factors, how):  # an output for each parameter, and one without any
    outputs = [None] * len(SIZES)
    for i in range(len(SIZES)):
        i = (i + self.first) % len(SIZES)
        value = self.get_parameter(f"w{i}")
        if how[i] == "throw_in_forward":
            raise RuntimeError("planted")
        outputs[i] = torch.zeros_like(value) if how[i] == "unused" else Passage.apply(value, how[i]) * factors[i].item()
    return outputs + [factors.sum() * 0]
)";

constexpr const char* kLackingSteps = R"(for step in range(len(HOW)):
    %CLEAR
    net.error = "none"
    try:
        for how, factors in zip(HOW[step][rank], FACTORS[step][rank]):
            last = how is HOW[step][rank][-1]
            with nullcontext() if last else no_sync():
                outputs = model(torch.tensor(factors, requires_grad=True), how)
                sum(each.sum() for each, word in zip(outputs, how + [""]) if word != "left_out").backward()
    except RuntimeError as error:
        # A peer that has ended closes its connections: that reports nothing.
        net.error = "its timeout" if "imed out" in str(error) else "a lost peer" if "onnection" in str(error) else "received"
        print(f"rank {rank}, step {step}: {error}", flush=True)
    if model is net:
        net.error = "received" if FAILS[step] else "none"
    %UNDEFINED
    if FAILS[step]:
        net.zero_grad()
    yield f"step {step}", average
)";

constexpr const char* kZeros =
    R"(for i, value in enumerate(net.parameters()):  # an undefined gradient counts as zero
        if model is net and value.grad is None and any(ranks[-1][i] == "undefined" for ranks in HOW[step]):
            value.grad = torch.zeros_like(value))";

std::string quoted(const std::string& word) {
  return '"' + word + '"';
}

void refuse_what_is_not_written(const Erring& c) {
  using enum MistakeKind;
  const auto mistake = c.mistake.kind;
  if (!c.attempts.empty() && mistake == throw_in_forward)
    throw NotWritten("cases with calls after the end are not written as programs yet");
  if (mistake != none && mistake != throw_in_backward && mistake != throw_in_forward)
    throw NotWritten("cases with the mistake '" + word_of(mistake) +
                     "' are not written as programs yet");
  if (c.embedding || c.buffer || c.hook)
    throw NotWritten(
        "cases of errors with a buffer, an embedding or a hook are not written as programs yet");
  if (c.clears != errors::Clears::none && c.clears != errors::Clears::zero)
    throw NotWritten("cases of errors that keep gradients are not written as programs yet");
  for (const auto& each : c.lacks)
    if (each.how == LackKind::left_out && finds_unused(c))
      throw NotWritten(
          "an output that the loss leaves out where unused parameters are found is not written "
          "yet");
}

Python lacking(const Erring& c) {
  refuse_what_is_not_written(c);
  std::vector<std::string> how_by_step, factors, fails_by_step;
  for (int step = 0; step < c.steps; ++step) {
    std::vector<std::string> how_by_rank, factors_by_rank;
    for (int rank = 0; rank < c.world.size; ++rank) {
      std::vector<std::string> words, numbers;
      for (int pass = 0; pass < passes_of(c); ++pass) {
        std::vector<std::string> word, number;
        for (size_t p = 0; p < parameter_count(c); ++p) {
          word.push_back(quoted(how(c, step, pass, rank, p)));
          number.push_back(literal(coefficient(c, step, pass, rank, p)));
        }
        words.push_back(list(word));
        numbers.push_back(list(number));
      }
      how_by_rank.push_back(list(words));
      factors_by_rank.push_back(list(numbers));
    }
    how_by_step.push_back(list(how_by_rank));
    factors.push_back(list(factors_by_rank));
    fails_by_step.emplace_back(fails(c, step) ? "True" : "False");
  }
  std::vector<int64_t> sizes;
  for (size_t p = 0; p < parameter_count(c); ++p) sizes.push_back(size_of(c, p));
  const bool to_none = c.clears == errors::Clears::none;
  const bool counts_as_zero = !c.options.find_unused_parameters;
  return {
      .world = c.world.size,
      .values =
          "SIZES = " + list(sizes) + "  # of parameters w0, w1, ...\n" +
          table("HOW", "step, rank, pass and parameter: how it lacks its gradient", how_by_step) +
          table("FACTORS", "step, rank, pass and parameter: its gradient otherwise", factors) +
          "FAILS = " + list(fails_by_step) + "  # by step: every rank has to receive an error\n" +
          kLackingPassage,
      .net = filled(kTerms,
                    {{"%FIRST", c.order_by_rank ? "rank" : "0"}, {"%DTYPE", word_of(c.dtype)}}),
      .options = arguments(c.options),
      .program =
          filled(kLackingSteps,
                 {{"%CLEAR", to_none ? "net.zero_grad()" : "net.zero_grad(set_to_none=False)"},
                  {"    %UNDEFINED\n", counts_as_zero ? "    " + std::string(kZeros) + "\n" : ""}}),
      .held =
          "{\"error\": net.error, **{name: each.grad for name, each in net.named_parameters()}}",
      .timeout_s = 10};
}

std::string lacking_in_words(const Erring& c) {
  const std::map<LackKind, std::string> words{
      {LackKind::unused, "forward does not use a parameter"},
      {LackKind::left_out, "the loss leaves out the output of a parameter"},
      {LackKind::undefined, "a function passes no gradient on to a parameter"}};
  const auto on = [&](const errors::Ranks& ranks) {
    std::vector<int> out;
    for (const auto each : ranks) out.push_back(each % c.world.size);
    return out.empty() ? std::string("on all ranks") : "on " + ranks_text(out);
  };
  std::vector<std::string> parts;
  for (const auto& each : c.lacks) parts.push_back(on(each.ranks) + " " + words.at(each.how));
  const bool is_mistaken = c.mistake.kind != MistakeKind::none;
  if (is_mistaken)
    parts.push_back("the mistake of a rank: " + spoken(c.mistake.kind) + " (" +
                    on(c.mistake.ranks) + ")");
  if (!c.attempts.empty() && is_mistaken)
    parts.push_back(std::to_string(c.attempts.size()) + " later calls");
  return "a forward and a backward" + std::string(c.steps > 1 ? " in each step" : "") +
         (parts.empty() ? "" : "; " + joined(parts, "; "));
}

}  // namespace

Families errors() {
  return {said("errors.lacking_gradients_are_reported", lacking, lacking_in_words),
          said("errors.reach_every_rank", lacking, lacking_in_words)};
}

}  // namespace lockstep::scenarios::standalone
