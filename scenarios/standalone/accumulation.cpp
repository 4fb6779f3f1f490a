// Scenarios of accumulation whose gradients the case chooses freely: one parameter of three
// elements, and the number that each backward adds to its gradient on each rank.
#include "harness/base/text.h"
#include "scenarios/standalone/family.h"
#include "scenarios/standalone/phrases.h"

#include <deque>
#include <map>

namespace lockstep::scenarios::standalone {

namespace {

constexpr int64_t kElements = 3, kPartMost = 7;

int world_of(const Json& value) {
  return value.at("world").at("size").get<int>();
}

// The numbers that backward number `index` adds, by rank.
std::string parts_of(const Json& value, size_t index, int unit) {
  std::vector<std::string> ranks;
  for (int rank = 0; rank < world_of(value); ++rank) {
    auto part = whole_numbers({.seed = value.at("seed").get<uint64_t>(),
                               .stream = Stream::input,
                               .rank = static_cast<uint64_t>(rank),
                               .step = index},
                              kPartMost, {kElements});
    for (auto& each : part.values) each *= unit;
    ranks.push_back(literal(part));
  }
  return list(ranks);
}

Python one_parameter(const Json& value, const std::string& values, const std::string& forward,
                     const std::string& program) {
  return {.world = world_of(value),
          .values = values,
          .net =
              "def __init__(self, rank):\n    super().__init__()\n"
              "    self.weight = torch.nn.Parameter(torch.ones(3))\n\n" +
              forward,
          .options = arguments(from_json<WrapOptions>(value.at("options"), "options")),
          .program = program};
}

std::string yielded(const std::string& moment, bool is_reduced) {
  return "yield \"" + moment + "\", " + (is_reduced ? "average\n" : "None\n");
}

// --- accumulation.graphs_decide -----------------------------------------------------------------

std::vector<bool> local_forwards(const Json& value) {
  std::vector<bool> out;
  for (const auto& each : value.at("forwards")) out.push_back(each == "local");
  return out.empty() ? std::vector{false} : out;
}

std::vector<size_t> backwards_of(const Json& value) {
  const auto count = local_forwards(value).size();
  std::vector<size_t> out;
  for (const auto& each : value.at("backwards")) out.push_back(each.get<size_t>() % count);
  for (size_t each = 0; value.at("backwards").empty() && each < count; ++each) out.push_back(each);
  return out;
}

Python graphs(const Json& value) {
  const auto forwards = local_forwards(value);
  std::vector<std::string> gradients;
  const bool of_kept = value.at("of_kept").get<bool>();
  std::string program = "outputs = []\n";
  for (size_t f = 0; f < forwards.size(); ++f) {
    gradients.push_back(parts_of(value, f, world_of(value)));
    program += std::string(forwards[f] ? "with no_sync():\n    " : "") +
               "outputs.append(model(torch.zeros(3)))\n" +
               (of_kept ? "outputs[-1] = net.kept  # goes through no output of the model\n" : "");
  }
  int count = 0;
  for (const auto graph : backwards_of(value)) {
    const auto number = std::to_string(graph);
    program += "(outputs[" + number + "] * GRADIENT[" + number + "][rank]).sum().backward()\n" +
               yielded("after backward " + std::to_string(count++) + ", of forward " + number,
                       !forwards[graph]);
  }
  return one_parameter(
      value, table("GRADIENT", "forward and rank", gradients),
      of_kept ? "def forward(self, x):\n    self.kept = self.weight + x\n    return self.kept + x\n"
              : "def forward(self, x):\n"
                "    return self.weight + x  # nothing is saved for its backward\n",
      program);
}

std::string graphs_in_words(const Json& value) {
  std::vector<std::string> forwards, backwards;
  for (const bool is_local : local_forwards(value))
    forwards.emplace_back(is_local ? "one inside no_sync" : "one that synchronises");
  std::vector<size_t> done;
  for (const auto each : backwards_of(value)) {
    const bool is_again = std::find(done.begin(), done.end(), each) != done.end();
    done.push_back(each);
    backwards.push_back(std::to_string(each) + (is_again ? " again" : ""));
  }
  return "forwards: " + in_order(forwards) +
         (value.at("of_kept").get<bool>() ? "; then backwards of what they kept, of forward "
                                          : "; then backwards of forward ") +
         joined(backwards, ", ");
}

// --- accumulation.bare_passes_are_local ---------------------------------------------------------

// A pass of the inner module, which adds twice `half` to the gradient.
std::string bare_text(const std::string& kind, const std::string& half) {
  if (kind == "parameter") return "(net.weight * net.weight * " + half + ").sum().backward()\n";
  if (kind == "penalty")
    return "x = torch.ones(3, requires_grad=True)\n"
           "slope, = torch.autograd.grad(net(x).sum(), x, create_graph=True)\n(slope * " +
           half + ").sum().backward()\n";
  return std::string(kind == "evaluation" ? "with torch.no_grad():\n    model(torch.ones(3))\n"
                                          : "") +
         "net(" + half + ").sum().backward()\n";
}

Python bare_passes(const Json& value) {
  const bool keeps = value.at("loss_of") == "kept";
  std::vector<std::string> parts;
  std::string program;
  bool is_defined = false;
  const auto next_half = [&] {
    parts.push_back(parts_of(value, parts.size(), 2 * world_of(value)));
    return "PART[" + std::to_string(parts.size() - 1) + "][rank] / 2";
  };
  const auto bare = [&](int step, const std::string& moment) {
    int number = -1;
    for (const auto& pass : value.at("passes")) {
      ++number;
      if (pass.at("moment") != moment) continue;
      program += "if " + std::to_string(pass.at("ranks").get<int>()) +
                 " >> rank & 1:  # the inner module\n" +
                 indented(bare_text(pass.at("kind"), next_half()), 4);
      if (is_defined)
        program += yielded(
            "step " + std::to_string(step) + ", after bare pass " + std::to_string(number), false);
    }
  };
  for (int step = 0; step < value.at("steps").get<int>(); ++step) {
    bare(step, "before");
    program += std::string("loss = model(torch.ones(3))\n") + (keeps ? "loss = net.kept\n" : "");
    bare(step, "between");
    program += "(loss * " + next_half() + ").sum().backward()\n" +
               yielded("step " + std::to_string(step) + ", after backward", true);
    is_defined = true;
    bare(step, "after");
  }
  return one_parameter(value, table("PART", "backward and rank", parts),
                       std::string("def forward(self, x):\n") +
                           (keeps ? "    self.kept = self.weight * self.weight * x\n" : "") +
                           "    return self.weight * self.weight * x\n",
                       program);
}

std::string bare_passes_in_words(const Json& value) {
  const std::map<std::string, std::string> kinds{
      {"module", "a forward and a backward of the inner module"},
      {"evaluation", "an evaluation, and a forward and a backward of the inner module"},
      {"penalty", "a gradient penalty on the inner module"},
      {"parameter", "a backward of a term of the parameters alone"}};
  const std::map<std::string, std::string> moments{{"before", "before the forward"},
                                                   {"between", "between forward and backward"},
                                                   {"after", "after the backward"}};
  std::vector<std::string> parts{
      value.at("loss_of") == "kept"
          ? "a forward, and a backward of a loss that the model keeps in a member"
          : "a forward and its backward"};
  for (const auto& pass : value.at("passes"))
    parts.push_back(moments.at(pass.at("moment")) +
                    on_ranks(number(pass, "ranks"), world_of(value)) + ", " +
                    kinds.at(pass.at("kind")));
  return joined(parts, "; ");
}

// --- accumulation.opaque_outputs_decide_once ----------------------------------------------------

std::vector<std::string> acts_of(const Json& value) {
  auto acts = value.at("acts").get<std::vector<std::string>>();
  if (acts.empty()) acts = {"opaque", "oldest"};
  if (std::find(acts.begin(), acts.end(), "bare") == acts.end()) acts.emplace_back("bare");
  return acts;
}

std::string opaque_forward(const std::string& act, const std::string& number) {
  const auto call = "model(INPUT[" + number + "][rank]" +
                    (act.starts_with("seen") ? ")"
                     : act == "detached"     ? ", detached=True)"
                                             : ", opaque=True).output");
  if (act == "detached") return call + "\n";
  if (act == "without_gradients") return "with torch.no_grad():\n    " + call + "\n";
  const auto taken = "losses[" + number + "] = " + call + "\n";
  return act.ends_with("_local") ? "with no_sync():\n    " + taken : taken;
}

Python opaque(const Json& value) {
  const auto acts = acts_of(value);
  std::vector<std::string> parts;
  std::string program = "losses = {}\n";
  std::deque<size_t> waiting;
  bool last_one_decides = false;
  int count = 0;
  const auto backward = [&](size_t graph, const std::string& call, const std::string& of) {
    const bool is_seen = acts[graph].starts_with("seen");
    const bool is_reduced = is_seen ? acts[graph] == "seen" : last_one_decides;
    if (is_reduced) last_one_decides = false;
    program += call + ".backward()\n" +
               yielded("after backward " + std::to_string(count++) + ", of " + of, is_reduced);
  };
  for (size_t act = 0; act < acts.size(); ++act) {
    parts.push_back(parts_of(value, act, world_of(value)));
    const auto& kind = acts[act];
    const auto number = std::to_string(act);
    if (kind == "bare") {
      backward(act, "net(INPUT[" + number + "][rank])", "the inner module");
    } else if (kind == "oldest" || kind == "newest") {
      if (waiting.empty()) continue;
      const auto graph = kind == "oldest" ? waiting.front() : waiting.back();
      kind == "oldest" ? waiting.pop_front() : waiting.pop_back();
      backward(graph, "losses[" + std::to_string(graph) + "]", "forward " + std::to_string(graph));
    } else {
      program += opaque_forward(kind, number);
      last_one_decides = kind == "opaque";
      if (kind != "without_gradients" && kind != "detached") waiting.push_back(act);
    }
  }
  return one_parameter(
      value,
      table("INPUT", "act and rank", parts) +
          "\n\nclass Output:  # a type into which DistributedDataParallel cannot look\n"
          "    def __init__(self, output):\n        self.output = output\n\n",
      "def forward(self, x, opaque=False, detached=False):  # its gradient is x\n"
      "    output = torch.dot(self.weight, x)\n"
      "    output = output.detach() if detached else output\n"
      "    return Output(output) if opaque else output\n",
      program);
}

std::string opaque_in_words(const Json& value) {
  const std::map<std::string, std::string> acts{
      {"opaque", "a forward returning an object"},
      {"opaque_local", "one inside no_sync returning an object"},
      {"seen", "a forward returning a tensor"},
      {"seen_local", "one inside no_sync returning a tensor"},
      {"without_gradients", "a forward under no_grad"},
      {"detached", "a forward returning a detached tensor"},
      {"oldest", "a backward of the oldest"},
      {"newest", "a backward of the newest"},
      {"bare", "a pass of the inner module"}};
  std::vector<std::string> said;
  for (const auto& each : acts_of(value)) said.push_back(acts.at(each));
  return in_order(said);
}

}  // namespace

Families accumulation() {
  return {{"accumulation.graphs_decide", graphs, graphs_in_words},
          {"accumulation.bare_passes_are_local", bare_passes, bare_passes_in_words},
          {"accumulation.opaque_outputs_decide_once", opaque, opaque_in_words}};
}

}  // namespace lockstep::scenarios::standalone
