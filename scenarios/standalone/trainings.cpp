// Scenarios of the shape Training.
#include "harness/base/text.h"
#include "scenarios/cases/branches.h"
#include "scenarios/standalone/family.h"
#include "scenarios/standalone/training.h"

namespace lockstep::scenarios::standalone {

namespace {

// The body of a loop over the steps.
std::string steps_text(const Training& c, const std::string& body) {
  return "for step in range(" + std::to_string(c.steps) + "):\n" + indented(body, 4);
}

std::string update_text(const Training& c) {
  return c.optimizer == OptimizerKind::none ? "" : "optimizer.step()\n";
}

// --- windows of micro-batches -------------------------------------------------------------------

// `local` and `synchronised`: the statements of a micro-batch `m` of the window, and of its last.
Python window(const Training& c, const std::string& local, const std::string& synchronised) {
  auto source = training_python(c);
  const auto last = std::to_string(c.micro_batches - 1);
  std::string body = "optimizer.zero_grad()\n";
  if (c.micro_batches > 1)
    body += "for m in range(" + last + "):\n" + indented(local, 4) +
            "    yield f\"step {step}, after micro-batch {m}\", None\n";
  body += "m = " + last + "\n" + synchronised +
          "yield f\"step {step}, after micro-batch {m}\", average\n" +
          (c.optimizer == OptimizerKind::sgd ? "optimizer.step()\n" : "");
  source.program = optimizer_statement(c) + steps_text(c, body);
  return source;
}

std::string loss_of_micro_batch(const Training& c) {
  return c.micro_batches == 1
             ? "loss(model, step, rank)"
             : "loss(model, step * " + std::to_string(c.micro_batches) + " + m, rank)";
}

Python no_sync_around_both(const Training& c) {
  const auto pass = loss_of_micro_batch(c) + ".backward()\n";
  return window(c, "with no_sync():\n    " + pass, pass);
}

Python no_sync_around_one(const Training& c) {
  const auto forward = "value = " + loss_of_micro_batch(c) + "\n";
  return window(c, "with no_sync():\n    " + forward + "value.backward()\n",
                forward + "with no_sync():\n    value.backward()\n");
}

std::string windows_in_words(const Training& c) {
  return network_in_words(c) + "; each step has " + std::to_string(c.micro_batches - 1) +
         (c.micro_batches == 2 ? " micro-batch" : " micro-batches") +
         " inside no_sync and one outside";
}

Python whole_window(const Training& c) {
  auto source = training_python(c);
  std::string body = "optimizer.zero_grad()\n";
  if (c.micro_batches > 1)
    body += "with no_sync():\n    for m in range(" + std::to_string(c.micro_batches - 1) +
            "):\n        " + loss_of_micro_batch(c) +
            ".backward()\nm = " + std::to_string(c.micro_batches - 1) + "\n";
  body += loss_of_micro_batch(c) +
          ".backward()\nyield f\"step {step}, after backward\", average\n" +
          (c.optimizer == OptimizerKind::sgd ? "optimizer.step()\n" : "");
  source.program = optimizer_statement(c) + steps_text(c, body);
  return source;
}

std::string training_in_words(const Training& c) {
  return network_in_words(c) + " and " + steps_in_words(c.steps) +
         (c.micro_batches > 1 ? ", each of " + counted(c.micro_batches - 1, "micro-batch") +
                                    " inside no_sync and one outside"
                              : "");
}

Python stays_equal(const Training& c) {
  auto source = training_python(c);
  source.tolerance = 1e-5;
  source.held = "{**" + source.held +
                ", **{\"value of \" + name: each for name, each in net.named_parameters()}}";
  std::string body =
      "optimizer.zero_grad()\nloss(model, step, rank).backward()\n"
      "yield f\"step {step}, after backward\", average\n" +
      update_text(c);
  if (c.optimizer != OptimizerKind::none) body += "yield f\"step {step}, after update\", None\n";
  source.program = optimizer_statement(c) + steps_text(c, body);
  return source;
}

// --- what some branches do ----------------------------------------------------------------------

Python unused(const Training& c) {
  auto source =
      training_python(c, "return output if self.uses[branch] else torch.zeros_like(output)\n");
  source.values = switches_by_branch(c, "USES", is_used) + source.values;
  source.program = steps_text(c,
                              "net.uses = USES[step][rank]\nnet.zero_grad()\n"
                              "loss(model, step, rank).backward()\n"
                              "yield f\"step {step}, after backward\", average\n");
  source.timeout_s = 20;
  return source;
}

std::string unused_in_words(const Training& c) {
  return network_in_words(c) + " and " + steps_in_words(c.steps) +
         ", in which ranks use different branches";
}

constexpr const char* kCut = R"(

class Cut(torch.autograd.Function):  # passes no gradient on
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return None

)";

Python undefined(const Training& c) {
  auto source = training_python(c, "return Cut.apply(output) if self.is_cut[branch] else output\n");
  source.values = switches_by_branch(c, "IS_CUT", is_silent) + source.values + (kCut + 1);
  source.program = steps_text(
      c,
      "net.is_cut = IS_CUT[step][rank]\nnet.zero_grad()\nloss(model, step, rank).backward()\n"
      "for each in net.parameters() if model is net else ():  # an undefined gradient counts as "
      "zero\n"
      "    each.grad = torch.zeros_like(each) if each.grad is None else each.grad\n"
      "yield f\"step {step}, after backward\", average\n");
  return source;
}

std::string undefined_in_words(const Training& c) {
  return network_in_words(c) + " and " + steps_in_words(c.steps) +
         "; from the second on, functions on some ranks pass no gradient on";
}

// --- one forward, or none -----------------------------------------------------------------------

Python converted(const Training& c) {
  auto source = training_python(c);
  source.program =
      std::string(c.dtype == Dtype::float64 ? "net.float().double()" : "net.double().float()") +
      "\nloss(model, 0, rank).backward()\nyield \"after backward\", average\n";
  return source;
}

std::string converted_in_words(const Training& c) {
  return network_in_words(c) + ", converts it to another dtype and back, one forward, one backward";
}

Python starts_equal(const Training& c) {
  auto source = training_python(c);
  source.program = "yield \"wrapped\", None\n";
  source.held = "dict([*net.named_parameters(), *net.named_buffers()])";
  return source;
}

std::string start_in_words(const Training& c) {
  return network_in_words(c) + ", whose values each rank has drawn for itself, and no more";
}

// --- an exception -------------------------------------------------------------------------------

constexpr const char* kThrowingPassage = R"(

class Passage(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, throws):
        ctx.throws = throws
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        if ctx.throws:
            raise RuntimeError("planted")
        return gradient, None

)";

constexpr const char* kThrowing = R"(net.throws = model is not net and (step, rank) == THROWS
net.zero_grad()
net.received = "no error"
try:
    loss(model, step, rank).backward()
except RuntimeError as error:
    net.received = str(error)
if step == THROWS[0]:  # each rank is to receive an error: its own, or one that names the rank
    net.zero_grad()
    right = "planted" if rank == THROWS[1] else f"an error that names rank {THROWS[1]}"
    net.received = right if model is net or right.removeprefix("an error that names ") in net.received else net.received
yield f"step {step}, after backward", average
)";

Python throws_in_backward(const Training& c) {
  auto source =
      training_python(c, "return Passage.apply(output, self.throws) if branch == 0 else output\n");
  const auto& planned = c.world.injections.front();
  source.values = "THROWS = " + std::to_string(planned.at.step) + ", " +
                  std::to_string(planned.rank) + "  # step and rank of an exception in backward\n" +
                  source.values + (kThrowingPassage + 1);
  source.program = steps_text(c, kThrowing);
  source.held = "{\"received\": net.received, **" + source.held + "}";
  source.timeout_s = 10;
  return source;
}

std::string throwing_in_words(const Training& c) {
  const auto& planned = c.world.injections.front();
  return network_in_words(c) + " and " + steps_in_words(c.steps) + "; in step " +
         std::to_string(planned.at.step) + " the backward of rank " + std::to_string(planned.rank) +
         " throws";
}

}  // namespace

Families trainings() {
  return {
      said("accumulation.no_sync_accumulates", no_sync_around_both, windows_in_words),
      said("accumulation.is_decided_at_forward", no_sync_around_one, windows_in_words),
      said("gradients.match_single_process", whole_window, training_in_words),
      said("gradients.average_over_the_group", whole_window, training_in_words),
      said("gradients.undefined_counts_as_zero", undefined, undefined_in_words),
      said("unused.are_averaged_over_all_ranks", unused, unused_in_words),
      said("replicas.start_equal", starts_equal, start_in_words),
      said("replicas.stay_equal", stays_equal, training_in_words),
      said("replicas.conversion_is_noticed", converted, converted_in_words),
      said("failures.exception_in_backward_reaches_all", throws_in_backward, throwing_in_words)};
}

}  // namespace lockstep::scenarios::standalone
