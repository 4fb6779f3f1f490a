// replicas.different_models_are_refused: ranks wrap what differs, and every rank has to say so.
#include "harness/base/text.h"
#include "scenarios/replicas/agreement.h"
#include "scenarios/standalone/family.h"

#include <map>

namespace lockstep::scenarios::standalone {

namespace {

using namespace replicas;

// (kind, shape, dtype, whether it learns) of each tensor of a rank, in the order of registration.
std::string tensors_of(const Given& given) {
  std::vector<std::string> out;
  for (const auto& each : given.tensors) {
    if (each.form.kind == TensorKind::embedding || each.form.tied || each.form.transposed ||
        each.memory != Memory::own || each.form.ignored || each.form.delayed)
      throw NotWritten(
          "models with embeddings, tied, transposed, ignored, delayed or unallocated tensors are "
          "not written as programs yet");
    const auto shape = shape_of(each);
    out.push_back("(\"" + each.name + "\", \"" + std::string(word_of(each.form.kind)) + "\", " +
                  list(std::vector<int64_t>(shape.begin(), shape.end())) + ", torch." +
                  std::string(word_of(dtype_of(each))) + ", " +
                  (requires_gradient(each) ? "True" : "False") + ")");
  }
  return list(out);
}

constexpr const char* kWrapped = R"(

def wrapped(net, rank):
    try:
        return DistributedDataParallel(net, **OPTIONS[rank])
    except Exception as error:
        net.refused = True
        print(f"rank {rank}: {error}", flush=True)
        return net

)";

Python different(const Differing& c) {
  std::vector<std::string> tensors, options;
  for (int rank = 0; rank < c.world.size; ++rank) {
    const auto given = given_to(c, rank);
    if (given.options.further != FurtherOptions() || given.options.hook ||
        given.options.local_sgd || !given.options.buffer_hook.empty())
      throw NotWritten(
          "PyTorch's DistributedDataParallel has no option by which the ranks of the case differ");
    tensors.push_back(tensors_of(given));
    const auto text = arguments(given.options);
    options.push_back("dict(" + (text.empty() ? text : text.substr(2)) + ")");
  }
  return {.world = c.world.size,
          .values = table("TENSORS", "rank", tensors) + "OPTIONS = " + list(options) +
                    "  # by rank\nREFUSED = " + (expected_refusal(c) ? "True" : "False") +
                    "  # what every rank has to do\n" + kWrapped,
          .net =
              "def __init__(self, rank):\n    super().__init__()\n    self.refused = False\n"
              "    for name, kind, shape, dtype, learns in TENSORS[rank]:\n"
              "        value = torch.ones(shape, dtype=dtype)\n"
              "        if kind == \"buffer\":\n            self.register_buffer(name, value)\n"
              "        else:\n            self.register_parameter(name, torch.nn.Parameter(value, "
              "requires_grad=learns))\n",
          .program =
              "if net in alone:\n    net.refused = REFUSED\n"
              "yield \"wrapped\", None\n",
          .held = "{\"refused\": net.refused}",
          .wrap = "wrapped(net, rank)",
          .no_sync = "nullcontext",
          .timeout_s = 10};
}

std::string different_in_words(const Differing& c) {
  std::vector<std::string> parts;
  const std::map<std::string, std::string> words{{"missing", "lacks a tensor"},
                                                 {"further", "has one tensor more"},
                                                 {"renamed", "has another name for a tensor"},
                                                 {"swapped", "has two tensors in another order"},
                                                 {"kind", "has a buffer for a parameter"},
                                                 {"frozen", "has a tensor frozen"},
                                                 {"tied", "has two parameters tied"}};
  for (const auto& each : c.differences) {
    const auto word = words.find(each.what);
    const auto who = each.everywhere ? std::string("all ranks")
                                     : "rank " + std::to_string(each.rank % c.world.size);
    parts.push_back(who + " " + (word == words.end() ? "differs in " + each.what : word->second));
  }
  return "ranks wrap models: " + (parts.empty() ? "all alike" : in_order(parts));
}

}  // namespace

Families replicas() {
  return {said("replicas.different_models_are_refused", different, different_in_words)};
}

}  // namespace lockstep::scenarios::standalone
