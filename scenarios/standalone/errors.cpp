// Scenarios of errors: parameters whose gradients some ranks lack, and a mistake of some rank.
#include "harness/base/text.h"
#include "harness/verdict/trace.h"
#include "scenarios/standalone/family.h"

#include <algorithm>
#include <cmath>

namespace lockstep::scenarios::standalone {

namespace {

class Erring {
 public:
  explicit Erring(const Json& value)
      : value_(value), options_(from_json<WrapOptions>(value.at("options"), "options")) {}

  int world() const { return value_.at("world").at("size").get<int>(); }
  int steps() const { return value_.at("steps").get<int>(); }
  int passes() const { return 1 + value_.at("local_passes").get<int>(); }
  const WrapOptions& options() const { return options_; }
  const Json& at(const char* field) const { return value_.at(field); }
  std::string mistake() const { return value_.at("mistake").at("kind").get<std::string>(); }

  std::vector<int64_t> sizes() const {
    auto out = value_.at("sizes").get<std::vector<int64_t>>();
    return out.empty() ? std::vector<int64_t>{1} : out;
  }
  bool finds_unused() const { return options_.find_unused_parameters || options_.static_graph; }

  bool errs(int step, int rank) const {
    const auto& mistake = value_.at("mistake");
    return mistake.at("kind") != "none" && mistake.at("step").get<int>() % steps() == step &&
           is_among(mistake.at("ranks"), rank);
  }

  // How the passes of a rank lack a parameter's gradient: a word, or nothing.
  std::string how(int step, int pass, int rank, size_t parameter) const {
    const bool is_local = pass + 1 < passes();
    const auto count = sizes().size();
    const auto& mistake = value_.at("mistake");
    if (!is_local && errs(step, rank) && mistake.at("parameter").get<size_t>() % count == parameter)
      return mistake.at("kind").get<std::string>();
    for (const auto& each : value_.at("lacks"))
      if (each.at("step").get<int>() % steps() == step &&
          each.at("parameter").get<size_t>() % count == parameter &&
          each.at("local").get<bool>() == is_local && is_among(each.at("ranks"), rank))
        return each.at("how").get<std::string>();
    return "";
  }

  // True if every rank has to receive an error in this step.
  bool fails(int step) const {
    for (int rank = 0; rank < world(); ++rank) {
      if (errs(step, rank)) return true;
      for (size_t p = 0; p < sizes().size(); ++p) {
        const auto word = how(step, passes() - 1, rank, p);
        if ((word == "unused" || word == "left_out") && !finds_unused()) return true;
      }
    }
    return false;
  }

  double factor(int step, int pass, int rank, size_t parameter) const {
    const auto bits = bits_at({.seed = value_.at("seed").get<uint64_t>(),
                               .stream = Stream::cotangent,
                               .rank = static_cast<uint64_t>(rank),
                               .step = static_cast<uint64_t>(8 * step + pass),
                               .index = parameter});
    return std::pow(world(), steps()) * static_cast<double>(1 + bits % 7);
  }

 private:
  bool is_among(const Json& ranks, int rank) const {
    return ranks.empty() || std::any_of(ranks.begin(), ranks.end(), [&](const Json& each) {
             return each.get<int>() % world() == rank;
           });
  }

  const Json& value_;
  const WrapOptions options_;
};

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

Python lacking(const Json& value) {
  const Erring c(value);
  const auto mistake = c.mistake();
  if (!c.at("attempts").empty() && mistake == "throw_in_forward")
    throw NotWritten("cases with calls after the end are not written as programs yet");
  if (mistake != "none" && mistake != "throw_in_backward" && mistake != "throw_in_forward")
    throw NotWritten("cases with the mistake '" + mistake + "' are not written as programs yet");
  if (c.at("embedding").get<bool>() || c.at("buffer").get<bool>() || c.at("hook").get<bool>())
    throw NotWritten(
        "cases of errors with a buffer, an embedding or a hook are not written as programs yet");
  const auto clears = c.at("clears").get<std::string>();
  if (clears != "none" && clears != "zero")
    throw NotWritten("cases of errors that keep gradients are not written as programs yet");
  std::vector<std::string> how, factors, fails;
  for (int step = 0; step < c.steps(); ++step) {
    std::vector<std::string> how_by_rank, factors_by_rank;
    for (int rank = 0; rank < c.world(); ++rank) {
      std::vector<std::string> words, numbers;
      for (int pass = 0; pass < c.passes(); ++pass) {
        std::vector<std::string> word, number;
        for (size_t p = 0; p < c.sizes().size(); ++p) {
          word.push_back(quoted(c.how(step, pass, rank, p)));
          number.push_back(literal(c.factor(step, pass, rank, p)));
          if (word.back() == quoted("left_out") && c.finds_unused())
            throw NotWritten(
                "an output that the loss leaves out where unused parameters are found is not "
                "written yet");
        }
        words.push_back(list(word));
        numbers.push_back(list(number));
      }
      how_by_rank.push_back(list(words));
      factors_by_rank.push_back(list(numbers));
    }
    how.push_back(list(how_by_rank));
    factors.push_back(list(factors_by_rank));
    fails.emplace_back(c.fails(step) ? "True" : "False");
  }
  const bool counts_as_zero = !c.options().find_unused_parameters;
  return {
      .world = c.world(),
      .values =
          "SIZES = " + list(c.sizes()) + "  # of parameters w0, w1, ...\n" +
          table("HOW", "step, rank, pass and parameter: how it lacks its gradient", how) +
          table("FACTORS", "step, rank, pass and parameter: its gradient otherwise", factors) +
          "FAILS = " + list(fails) + "  # by step: every rank has to receive an error\n" +
          kLackingPassage,
      .net = filled(kTerms, {{"%FIRST", c.at("order_by_rank").get<bool>() ? "rank" : "0"},
                             {"%DTYPE", c.at("dtype").get<std::string>()}}),
      .options = arguments(c.options()),
      .program = filled(
          kLackingSteps,
          {{"%CLEAR", clears == "none" ? "net.zero_grad()" : "net.zero_grad(set_to_none=False)"},
           {"    %UNDEFINED\n", counts_as_zero ? "    " + std::string(kZeros) + "\n" : ""}}),
      .held =
          "{\"error\": net.error, **{name: each.grad for name, each in net.named_parameters()}}",
      .timeout_s = 10};
}

std::string lacking_in_words(const Json& value) {
  const Erring c(value);
  const std::map<std::string, std::string> words{
      {"unused", "forward does not use a parameter"},
      {"left_out", "the loss leaves out the output of a parameter"},
      {"undefined", "a function passes no gradient on to a parameter"}};
  const auto on = [&](const Json& ranks) {
    std::vector<int> out;
    for (const auto& each : ranks) out.push_back(each.get<int>() % c.world());
    return out.empty() ? std::string("on all ranks") : "on " + ranks_text(out);
  };
  std::vector<std::string> parts;
  for (const auto& each : c.at("lacks"))
    parts.push_back(on(each.at("ranks")) + " " + words.at(each.at("how")));
  auto mistake = c.mistake();
  std::replace(mistake.begin(), mistake.end(), '_', ' ');
  if (mistake != "none")
    parts.push_back("the mistake of a rank: " + mistake + " (" + on(c.at("mistake").at("ranks")) +
                    ")");
  if (const auto more = c.at("attempts").size(); more > 0 && mistake != "none")
    parts.push_back(std::to_string(more) + " later calls");
  return "a forward and a backward" + std::string(c.steps() > 1 ? " in each step" : "") +
         (parts.empty() ? "" : "; " + joined(parts, "; "));
}

}  // namespace

Families errors() {
  return {{"errors.lacking_gradients_are_reported", lacking, lacking_in_words},
          {"errors.reach_every_rank", lacking, lacking_in_words}};
}

}  // namespace lockstep::scenarios::standalone
