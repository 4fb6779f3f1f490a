// Scenarios of accumulation whose gradients the case chooses freely: one parameter of three
// elements, and the number that each backward adds to its gradient on each rank.
#include "scenarios/accumulation/beside.h"
#include "scenarios/accumulation/graphs.h"
#include "scenarios/accumulation/held.h"
#include "scenarios/accumulation/opaque_case.h"
#include "scenarios/standalone/family.h"
#include "scenarios/standalone/phrases.h"

namespace lockstep::scenarios::standalone {

namespace {

// The numbers that backward number `index` adds, by rank: multiples of `unit`.
template <class C>
std::string parts_of(const C& c, size_t index, int unit) {
  std::vector<std::string> ranks;
  for (int rank = 0; rank < c.world.size; ++rank)
    ranks.push_back(literal({.shape = {kElements}, .values = part(c.seed, index, rank, unit)}));
  return list(ranks);
}

template <class C>
Python one_parameter(const C& c, const std::string& values, const std::string& forward,
                     const std::string& program) {
  return {.world = c.world.size,
          .values = values,
          .net =
              "def __init__(self, rank):\n    super().__init__()\n"
              "    self.weight = torch.nn.Parameter(torch.ones(3))\n\n" +
              forward,
          .options = arguments(c.options),
          .program = program};
}

std::string yielded(const std::string& moment, bool is_reduced) {
  return "yield \"" + moment + "\", " + (is_reduced ? "average\n" : "None\n");
}

// --- accumulation.graphs_decide -----------------------------------------------------------------

using accumulation_graphs_decide::Graphs;

bool is_local(accumulation_graphs_decide::Forward kind) {
  return kind == accumulation_graphs_decide::Forward::local;
}

Python graphs(const Graphs& c) {
  const auto forwards = forwards_of(c);
  std::vector<std::string> gradients;
  std::string program = "outputs = []\n";
  for (size_t f = 0; f < forwards.size(); ++f) {
    gradients.push_back(parts_of(c, f, c.world.size));
    program += std::string(is_local(forwards[f]) ? "with no_sync():\n    " : "") +
               "outputs.append(model(torch.zeros(3)))\n" +
               (c.of_kept ? "outputs[-1] = net.kept  # goes through no output of the model\n" : "");
  }
  int count = 0;
  for (const auto graph : backwards_of(c)) {
    const auto number = std::to_string(graph);
    program += "(outputs[" + number + "] * GRADIENT[" + number + "][rank]).sum().backward()\n" +
               yielded("after backward " + std::to_string(count++) + ", of forward " + number,
                       !is_local(forwards[graph]));
  }
  return one_parameter(
      c, table("GRADIENT", "forward and rank", gradients),
      c.of_kept
          ? "def forward(self, x):\n    self.kept = self.weight + x\n    return self.kept + x\n"
          : "def forward(self, x):\n"
            "    return self.weight + x  # nothing is saved for its backward\n",
      program);
}

std::string graphs_in_words(const Graphs& c) {
  std::vector<std::string> forwards, backwards;
  for (const auto kind : forwards_of(c))
    forwards.emplace_back(is_local(kind) ? "one inside no_sync" : "one that synchronises");
  std::vector<size_t> done;
  for (const auto each : backwards_of(c)) {
    const bool is_again = std::find(done.begin(), done.end(), each) != done.end();
    done.push_back(each);
    backwards.push_back(std::to_string(each) + (is_again ? " again" : ""));
  }
  return "forwards: " + in_order(forwards) +
         (c.of_kept ? "; then backwards of what they kept, of forward "
                    : "; then backwards of forward ") +
         joined(backwards, ", ");
}

// --- accumulation.bare_passes_are_local ---------------------------------------------------------

namespace bare = accumulation_bare_passes_are_local;

// A pass of the inner module, which adds twice `half` to the gradient.
std::string bare_text(bare::PassKind kind, const std::string& half) {
  using enum bare::PassKind;
  if (kind == parameter) return "(net.weight * net.weight * " + half + ").sum().backward()\n";
  if (kind == penalty)
    return "x = torch.ones(3, requires_grad=True)\n"
           "slope, = torch.autograd.grad(net(x).sum(), x, create_graph=True)\n(slope * " +
           half + ").sum().backward()\n";
  return std::string(kind == evaluation ? "with torch.no_grad():\n    model(torch.ones(3))\n"
                                        : "") +
         "net(" + half + ").sum().backward()\n";
}

Python bare_passes(const bare::Beside& c) {
  const bool keeps = c.loss_of == bare::LossOf::kept;
  std::vector<std::string> parts;
  std::string program;
  int forwards = 0;
  bool is_defined = false;
  const auto forward_until = [&](int step) {
    while (forwards <= step) {
      program += std::string("loss = model(torch.ones(3))\n") + (keeps ? "loss = net.kept\n" : "");
      ++forwards;
    }
  };
  for (const auto& backward : bare::backwards_of(c)) {
    if (!backward.bare || backward.bare->moment == bare::PassMoment::between)
      forward_until(backward.step);
    parts.push_back(parts_of(c, parts.size(), 2 * c.world.size));
    const auto half = "PART[" + std::to_string(parts.size() - 1) + "][rank] / 2";
    program += backward.bare ? "if " + std::to_string(backward.bare->ranks) +
                                   " >> rank & 1:  # the inner module\n" +
                                   indented(bare_text(backward.bare->kind, half), 4)
                             : "(loss * " + half + ").sum().backward()\n";
    is_defined = is_defined || !backward.bare;
    if (is_defined)
      program +=
          yielded("step " + std::to_string(backward.step) + ", " + backward.phase, !backward.bare);
  }
  return one_parameter(c, table("PART", "backward and rank", parts),
                       std::string("def forward(self, x):\n") +
                           (keeps ? "    self.kept = self.weight * self.weight * x\n" : "") +
                           "    return self.weight * self.weight * x\n",
                       program);
}

std::string bare_passes_in_words(const bare::Beside& c) {
  using enum bare::PassKind;
  using enum bare::PassMoment;
  const std::map<bare::PassKind, std::string> kinds{
      {module, "a forward and a backward of the inner module"},
      {evaluation, "an evaluation, and a forward and a backward of the inner module"},
      {penalty, "a gradient penalty on the inner module"},
      {parameter, "a backward of a term of the parameters alone"}};
  const std::map<bare::PassMoment, std::string> moments{{before, "before the forward"},
                                                        {between, "between forward and backward"},
                                                        {after, "after the backward"}};
  std::vector<std::string> parts{
      c.loss_of == bare::LossOf::kept
          ? "a forward, and a backward of a loss that the model keeps in a member"
          : "a forward and its backward"};
  for (const auto& pass : c.passes)
    parts.push_back(moments.at(pass.moment) + on_ranks(pass.ranks, c.world.size) + ", " +
                    kinds.at(pass.kind));
  return joined(parts, "; ");
}

// --- accumulation.opaque_outputs_decide_once ----------------------------------------------------

namespace opaque_outputs = accumulation_opaque_outputs;
using opaque_outputs::Opaque;

std::string forward_text(opaque_outputs::Act act, const std::string& number) {
  using enum opaque_outputs::Act;
  const auto call = "model(INPUT[" + number + "][rank]" +
                    (act == detached ? ", detached=True)"
                     : is_seen(act)  ? ")"
                                     : ", opaque=True).output");
  if (act == detached) return call + "\n";
  if (act == without_gradients) return "with torch.no_grad():\n    " + call + "\n";
  const auto taken = "losses[" + number + "] = " + call + "\n";
  return act == opaque_local || act == seen_local ? "with no_sync():\n    " + taken : taken;
}

Python opaque(const Opaque& c) {
  const auto acts = acts_of(c);
  std::vector<std::string> parts;
  for (size_t act = 0; act < acts.size(); ++act) parts.push_back(parts_of(c, act, c.world.size));
  std::string program = "losses = {}\n";
  int count = 0;
  for (const auto& step : steps_of(c)) {
    const auto number = std::to_string(step.graph);
    program += !step.is_backward ? forward_text(acts[step.graph], number)
               : step.is_bare    ? "net(INPUT[" + number + "][rank]).backward()\n"
                                 : "losses[" + number + "].backward()\n";
    if (step.is_backward)
      program += yielded("after backward " + std::to_string(count++) + ", of " +
                             (step.is_bare ? "the inner module" : "forward " + number),
                         step.is_reduced);
  }
  return one_parameter(
      c,
      table("INPUT", "act and rank", parts) +
          "\n\nclass Output:  # a type into which DistributedDataParallel cannot look\n"
          "    def __init__(self, output):\n        self.output = output\n\n",
      "def forward(self, x, opaque=False, detached=False):  # its gradient is x\n"
      "    output = torch.dot(self.weight, x)\n"
      "    output = output.detach() if detached else output\n"
      "    return Output(output) if opaque else output\n",
      program);
}

std::string opaque_in_words(const Opaque& c) {
  using enum opaque_outputs::Act;
  const std::map<opaque_outputs::Act, std::string> acts{
      {opaque_outputs::Act::opaque, "a forward returning an object"},
      {opaque_local, "one inside no_sync returning an object"},
      {seen, "a forward returning a tensor"},
      {seen_local, "one inside no_sync returning a tensor"},
      {without_gradients, "a forward under no_grad"},
      {detached, "a forward returning a detached tensor"},
      {oldest, "a backward of the oldest"},
      {newest, "a backward of the newest"},
      {opaque_outputs::Act::bare, "a pass of the inner module"}};
  return in_order(each_in(acts_of(c), acts));
}

}  // namespace

Families accumulation() {
  return {said("accumulation.graphs_decide", graphs, graphs_in_words),
          said("accumulation.bare_passes_are_local", bare_passes, bare_passes_in_words),
          said("accumulation.opaque_outputs_decide_once", opaque, opaque_in_words)};
}

}  // namespace lockstep::scenarios::standalone
