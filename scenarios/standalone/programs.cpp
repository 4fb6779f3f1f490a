// Programs, step by step, as the walk over their steps has them. Only `written` looks at steps.
#include "harness/base/text.h"
#include "scenarios/standalone/family.h"
#include "scenarios/standalone/program_layers.h"

#include <algorithm>
#include <cmath>

namespace lockstep::scenarios::standalone {

namespace {

using namespace programs;

std::string bits_by_rank(const ProgramSpec& c, const Action& action,
                         uint32_t (*bits)(const ProgramSpec&, const Step&, int)) {
  std::vector<int64_t> out;
  bool is_any = false;
  for (int rank = 0; rank < c.world.size; ++rank) {
    out.push_back(bits(c, action.step, rank));
    is_any = is_any || out.back() != 0;
  }
  return is_any ? list(out) + "[rank]" : "";
}

// Statements of one model: `net` and `ddp` are expressions of it.
struct Names {
  std::string net, ddp;
  std::string average = "average";
};

Names names_of(const ProgramSpec& c, int model) {
  if (c.models == 1) return {"net", "ddp[0]"};
  const auto number = std::to_string(model);
  return {"net[" + number + "]", "ddp[" + number + "]",
          "lambda nets: average(nets, \"" + number + ".\")"};
}

std::string loss_name(int step) {
  return "losses[" + std::to_string(step) + "]";
}

// The loss of a forward, or of one of the model itself past its wrapper.
std::string loss_text(const ProgramSpec& c, const std::vector<Action>& actions,
                      const Action& action, const Names& names, const std::string& callee,
                      const std::string& into) {
  if (action.step.penalty || action.step.penalty_alone)
    throw NotWritten("losses with a penalty are not written as programs yet");
  const auto left_out_layers = bits_by_rank(c, action, left_out);
  std::string out = "output = " + callee + "(" + program_inputs(c, action) + "[rank]" +
                    (left_out_layers.empty() ? "" : ", " + left_out_layers) +
                    (action.uses_first ? ")" : ", uses_first=False)");
  if (c.nested) out += "[\"outputs\"]";
  out += "\n";
  if (c.outputs > 1 || c.returns_first || c.nested) {
    const auto of_loss = bits_by_rank(c, action, left_out_of_loss);
    out += "output = sum(each for i, each in enumerate(output[:" + std::to_string(c.outputs) +
           "])" + (of_loss.empty() ? ")" : " if not " + of_loss + " >> i & 1)") + "\n";
  }
  if (action.step.direct != Direct::no)
    out += "output = output + 2 * " + names.net + ".first.double().sum()\n";
  return out + into + "output * " + program_weights(c, actions, action) + "[rank]\n";
}

std::string backward_text(const Action& action, const Names& names) {
  std::vector<std::string> losses;
  for (const int graph : action.graphs) losses.push_back(loss_name(graph));
  const auto sum = losses.size() == 1 ? losses.front() : "(" + joined(losses, " + ") + ")";
  std::vector<std::string> arguments;
  if (action.closed.empty()) arguments.emplace_back("retain_graph=True");
  if (action.step.create_graph) arguments.emplace_back("create_graph=True");
  if (action.step.inputs == Inputs::first) arguments.push_back("inputs=[" + names.net + ".first]");
  if (action.step.inputs == Inputs::parameters)
    arguments.push_back("inputs=[each for each in " + names.net +
                        ".parameters() if each.requires_grad]");
  if (!action.step.thread) return sum + ".backward(" + joined(arguments, ", ") + ")\n";
  return "thread = threading.Thread(target=" + sum + ".backward, kwargs=dict(" +
         joined(arguments, ", ") + "))\nthread.start()\nthread.join()\n";
}

std::string on_ranks(const Step& step, const std::string& statements) {
  return step.ranks == 15
             ? statements
             : "if " + std::to_string(step.ranks) + " >> rank % 4 & 1:\n" + indented(statements, 4);
}

// A statement about each parameter that has a gradient.
std::string of_gradients(const Names& names, const std::string& statement) {
  return "for each in " + names.net + ".parameters():\n    if each.grad is not None:\n        " +
         statement + "\n";
}

std::string word_of_step(const Step& step) {
  if (step.op == Op::throw_) return "forward that throws";
  auto word = std::string(word_of(step.op));
  std::replace(word.begin(), word.end(), '_', ' ');
  return word;
}

// The statements of an action without the guards around it.
std::string written(const ProgramSpec& c, const std::vector<Action>& actions, const Action& action,
                    const Names& names) {
  const auto& step = action.step;
  const auto wrapped =
      names.ddp + " = wrapped(" + names.net + ") if model is not net else " + names.net + "\n";
  const auto evaluation = names.ddp + "(" + program_inputs(c, action) + "[rank])\n";
  switch (step.op) {
    case Op::forward:
      return loss_text(c, actions, action, names, names.ddp, loss_name(action.number) + " = ");
    case Op::bare:
      return on_ranks(
          step, loss_text(c, actions, action, names, names.net, "loss = ") + "loss.backward()\n");
    case Op::backward:
    case Op::backward_retained:
    case Op::backward_together:
      return backward_text(action, names);
    case Op::evaluate:
      return names.net + ".eval()\nwith torch.no_grad():\n    " + evaluation + names.net +
             ".train()\n";
    case Op::infer:
      return names.net + ".eval()\nwith torch.inference_mode():\n    " + evaluation + names.net +
             ".train()\n";
    case Op::zero_none:
      return names.net + ".zero_grad()\n";
    case Op::zero_in_place:
      return names.net + ".zero_grad(set_to_none=False)\n";
    case Op::scale:
      return on_ranks(step, of_gradients(names, "each.grad.mul_(2)"));
    case Op::update:
      return "optimizers[" + std::to_string(action.model) + "].step()\n";
    case Op::update_if_finite:
      return "if all(each.grad is None or each.grad.to_dense().isfinite().all() for each in " +
             names.net + ".parameters()):\n    optimizers[" + std::to_string(action.model) +
             "].step()\n";
    case Op::convert:
      return "for each in " + names.net +
             ".parameters():  # to another dtype and back\n"
             "    dtype = each.dtype\n    each.data = each.data.to(torch.complex128 if dtype in "
             "(torch.float64, "
             "torch.complex64) else torch.float64)\n    each.data = (each.data.real if not "
             "dtype.is_complex and "
             "each.data.is_complex() else each.data).to(dtype)\n";
    case Op::renew:
      return "for each in " + names.net + ".parameters():\n    each.data = each.data.clone()\n";
    case Op::unwrap:
      return names.ddp + " = None\n";
    case Op::wrap:
      if (step.cut % c.world.size != 0) break;
      return names.ddp + " = None\n" + wrapped;
    default:
      break;
  }
  throw NotWritten("programs with the step '" + word_of_step(step) +
                   "' are not written as programs of their own yet");
}

std::string with_guards(const ProgramSpec& c, const Action& action, const Names& names,
                        const std::string& statements) {
  const bool wraps = action.step.op == Op::wrap || action.step.op == Op::unwrap;
  std::string out = statements;
  if (action.step.no_sync > 0 && !wraps)
    out = "with no_sync_of(" + names.ddp + "):\n" + indented(out, 4);
  if (action.step.inside_another && c.models > 1)
    out = "with no_sync_of(" + names_of(c, (action.model + 1) % c.models).ddp + "):\n" +
          indented(out, 4);
  return out;
}

// A step of all models: forwards in an order of the rank's own, or one pass through all graphs.
std::string everywhere_text(const ProgramSpec& c, const std::vector<Action>& actions,
                            const std::vector<Action>& step) {
  if (step.front().step.op == Op::forward) {
    std::string out =
        "for model_number in " +
        std::string(step.front().by_rank ? "(rank + i for i in range(" : "(i for i in range(") +
        std::to_string(step.size()) + ")):\n";
    for (size_t i = 0; i < step.size(); ++i) {
      const auto names = names_of(c, step[i].model);
      out += "    if model_number % " + std::to_string(step.size()) + " == " + std::to_string(i) +
             ":\n" +
             indented(with_guards(c, step[i], names,
                                  loss_text(c, actions, step[i], names, names.ddp,
                                            "losses[" + std::to_string(step[i].number) + ", " +
                                                std::to_string(step[i].model) + "] = ")),
                      8);
    }
    return out;
  }
  std::vector<std::string> losses;
  for (const auto& action : step)
    for (const int graph : action.graphs)
      losses.push_back("losses[" + std::to_string(graph) + ", " + std::to_string(action.model) +
                       "]");
  return "(" + joined(losses, " + ") + ").backward()\n";
}

void refuse_what_is_not_written(const ProgramSpec& c) {
  if (!c.buffers.empty())
    throw NotWritten("programs with buffers are not written as programs of their own yet");
  if (c.environment != EnvironmentSpec())
    throw NotWritten(
        "programs that change process-wide settings are not written as programs of their own yet");
}

// The step of all models that begins with `first`, or that action alone; moves `first` to its last.
std::vector<Action> step_from(const ProgramSpec& c, const std::vector<Action>& actions,
                              std::vector<Action>::const_iterator& first) {
  std::vector<Action> step{*first};
  while (is_everywhere(c, first->step) && first + 1 != actions.end() &&
         (first + 1)->number == first->number)
    step.push_back(*++first);
  return step;
}

std::string body_of(const ProgramSpec& c, const std::vector<Action>& actions) {
  std::string body;
  for (auto each = actions.begin(); each != actions.end(); ++each) {
    const auto step = step_from(c, actions, each);
    const auto& first = step.front();
    const bool is_of_all = is_everywhere(c, first.step);
    const auto names = names_of(c, first.model);
    if (first.is_refused)
      throw NotWritten("forwards that are to be refused are not written as programs yet");
    body += is_of_all ? everywhere_text(c, actions, step)
                      : with_guards(c, first, names, written(c, actions, first, names));
    if (first.step.op == Op::forward) continue;
    const bool averages = is_backward(first.step.op) && first.is_synchronised;
    body += "yield \"step " + std::to_string(first.number) + ", " + word_of_step(first.step) +
            "\", " +
            (!averages   ? "None"
             : is_of_all ? "average"
                         : names.average) +
            "\n";
  }
  return body;
}

Python program(const ProgramSpec& c) {
  refuse_what_is_not_written(c);
  const auto actions = actions_of(c);
  const auto body = body_of(c, actions);
  const auto any = [&](auto&& is) { return std::any_of(actions.begin(), actions.end(), is); };
  const bool moves = any(
      [](const Action& each) { return is_update(each.step.op) || each.step.op == Op::convert; });
  const bool is_one = c.models == 1;
  const std::string models = is_one ? "[net]" : "net";
  std::string head = "ddp = [each if model is net else wrapped(each) for each in " + models + "]\n";
  if (any([](const Action& each) { return is_update(each.step.op); }))
    head += "optimizers = [torch.optim.SGD(each.parameters(), lr=" +
            literal(std::ldexp(1.0, c.learning_rate_log2)) + ") for each in " + models + "]\n";
  const std::string gradients =
      "{f\"{name}.grad\": each.grad for name, each in net.named_parameters()}";
  return {.world = c.world.size,
          .values = (any([](const Action& each) { return each.step.thread; }) ? "import threading\n"
                                                                              : "") +
                    program_values(c),
          .net = program_net(c),
          .base = is_one ? "torch.nn.Module" : "torch.nn.ModuleList",
          .program = head + "losses = {}\n" + body,
          .held = moves ? "{**" + gradients + ", **dict(net.named_parameters())}" : gradients,
          .wrap = "None",
          .no_sync = "None",
          .keeps_unused = true,
          .timeout_s = 20};
}

std::string program_in_words(const ProgramSpec& c) {
  std::vector<std::string> steps;
  for (const auto& action : actions_of(c)) {
    auto word = word_of_step(action.step);
    if (action.is_local && action.step.op == Op::forward) word += " inside no_sync";
    if (!action.step.unused.empty()) word += " that leaves layers out";
    if (c.models > 1) word += " of model " + std::to_string(action.model);
    steps.push_back(word);
  }
  return "wraps " +
         (c.models == 1 ? std::string("a model") : std::to_string(c.models) + " models") + "; " +
         in_order(steps);
}

}  // namespace

Families programs() {
  return {said("programs.match_single_process", program, program_in_words)};
}

}  // namespace lockstep::scenarios::standalone
