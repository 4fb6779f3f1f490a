// Buffers of every dtype follow rank 0's, integers and booleans bit for bit, and so does a buffer
// that the module has replaced by another tensor since it was wrapped.
//
// Each forward adds the number of its samples, which differs between ranks, to a buffer of every
// dtype, so the integers tell which ranks' forwards changed a buffer. The expected values need no
// rounding: they are the same sums in plain integers. A list of buffers made once at construction
// would broadcast tensors that the module no longer has: with `reassigned` it is wrong from the
// second forward on.
#include "harness/cases/generators.h"
#include "scenarios/buffers/experiment.h"
#include "scenarios/cases/expect.h"
#include "scenarios/cases/labels.h"

#include <torch/torch.h>

namespace lockstep::scenarios::buffers_every_kind_is_followed {
namespace {

struct Kind {
  const char* name;
  at::ScalarType dtype;
};
constexpr Kind kKinds[] = {{"float32", at::kFloat}, {"float64", at::kDouble}, {"int64", at::kLong},
                           {"int32", at::kInt},     {"int16", at::kShort},    {"int8", at::kChar},
                           {"uint8", at::kByte},    {"bool", at::kBool}};

// Above 2^53, so that a conversion to floating point would lose the last bit.
constexpr int64_t kBig = (int64_t{1} << 53) + 1;

int64_t start_of(at::ScalarType dtype, int rank) {
  return (dtype == at::kLong ? kBig : 0) + rank % 2;
}

at::Tensor added(const at::Tensor& value, int64_t samples) {
  if (value.scalar_type() == at::kBool) return value.logical_xor(torch::tensor(samples % 2 == 1));
  return value + samples;
}

// One buffer of every dtype.
class Counts : public torch::nn::Module {
 public:
  explicit Counts(const std::vector<at::Tensor>& values) {
    for (size_t i = 0; i < values.size(); ++i) register_buffer(kKinds[i].name, values[i].clone());
  }
};

std::vector<at::Tensor> start_values(int rank) {
  std::vector<at::Tensor> out;
  for (const auto& kind : kKinds)
    out.push_back(torch::full({2}, start_of(kind.dtype, rank), kind.dtype));
  return out;
}

std::vector<at::Tensor> counted(const std::vector<at::Tensor>& now, int64_t samples) {
  std::vector<at::Tensor> next;
  for (const auto& value : now) next.push_back(added(value, samples));
  return next;
}

class Counters : public buffers::Watched {
 public:
  Counters(const Stateful& c, int rank) : reassigned_(c.reassigned) {
    weight_ = register_parameter("weight", torch::ones({1}));
    register_module("counts", std::make_shared<Counts>(start_values(rank)));
  }

  at::Tensor forward(const at::Tensor& input) override {
    if (on_entry) on_entry();
    if (is_training()) count(input.size(0));
    return input * weight_;
  }

 private:
  // A module cannot replace the tensor of a registered buffer, but its parent can replace the
  // module.
  void count(int64_t samples) {
    const auto now = named_children()["counts"]->buffers();
    const auto next = counted(now, samples);
    if (reassigned_) {
      replace_module("counts", std::make_shared<Counts>(next));
    } else {
      for (size_t i = 0; i < now.size(); ++i) now[i].copy_(next[i]);
    }
  }

  const bool reassigned_;
  at::Tensor weight_;
};

void program(const Stateful& c, RankContext& here) {
  buffers::train(c, here, std::make_shared<Counters>(c, here.rank()), [&](int) {
    return torch::ones({samples_of(c, here.rank()), 1});
  });
}

std::string name_of(const Kind& kind) {
  return std::string("counts.") + kind.name;
}

std::vector<std::string> names() {
  std::vector<std::string> out;
  for (const auto& kind : kKinds) out.push_back(name_of(kind));
  return out;
}

buffers::State shown(const std::vector<at::Tensor>& now) {
  buffers::State out;
  for (const auto& value : now) out.push_back({recorded(value, value.scalar_type()), {}});
  return out;
}

buffers::Trajectory expected(const Stateful& c, const History& h) {
  const auto held = [&](const Moment& at, int rank) {
    std::vector<at::Tensor> out;
    for (const auto& kind : kKinds) {
      const auto row = h.row(at, name_of(kind));
      const auto& value = row.by_rank[static_cast<size_t>(rank)];
      out.push_back((at::isFloatingType(kind.dtype) ? torch::tensor(as_doubles(value), at::kDouble)
                                                    : torch::tensor(as_integers(value), at::kLong))
                        .to(kind.dtype));
    }
    return out;
  };
  const auto update = [&](const std::vector<at::Tensor>& now, int, int rank) {
    return counted(now, samples_of(c, rank));
  };
  return buffers::trajectory(c, held, update, shown);
}

Findings replicas_start_as_rank_zero(const Stateful& c, const History& h) {
  std::vector<buffers::State> built;
  for (int rank = 0; rank < c.world.size; ++rank) built.push_back(shown(start_values(rank)));
  return buffers::start_is_rank_zeros(c, h, names(), built);
}

Findings forwards_begin_right_and_add_their_own_samples(const Stateful& c, const History& h) {
  return buffers::forwards_are_as_expected(h, names(), expected(c, h));
}

std::vector<Stateful> written_and_replaced() {
  std::vector<Stateful> all;
  for (const int world : {2, 3})
    for (const bool reassigned : {false, true})
      for (const bool broadcast : {true, false})
        all.push_back({.world = {.size = world},
                       .forwards = std::vector(3, ForwardKind::synced),
                       .samples = {1, 2, 4},
                       .reassigned = reassigned,
                       .options = {.broadcast_buffers = broadcast}});
  return all;
}

rc::Gen<Stateful> cases() {
  return gen::apply(
      [](Stateful c, bool reassigned) {
        c.reassigned = reassigned;
        return c;
      },
      buffers::cases(
          {ForwardKind::synced, ForwardKind::synced, ForwardKind::eval, ForwardKind::no_sync}),
      rc::gen::arbitrary<bool>());
}

}  // namespace

Scenario every_kind_is_followed() {
  return scenario<Stateful>({
      .name = "buffers.every_kind_is_followed",
      .claim =
          "Buffers of every dtype follow rank 0's bit for bit, whether a forward writes them or "
          "replaces them.",
      .exactness = "bit-equal",
      .source = "pytorch/pytorch#63916 (a reassigned buffer); docs/semantics.md 1.3",
      .not_covered = "buffers of other shapes than at construction, ignored buffers",
      .usual_mistake =
          "keeping a list of buffers from construction: a replaced buffer is no longer "
          "in it.",
      .tags = {"buffers"},
      .must_catch = {"buffers_never_broadcast", "buffers_listed_at_construction"},
      .draws = 80,
      .start = {.world = {.size = 2}},
      .every = written_and_replaced,
      .cases = cases(),
      .program = program,
      .checks = {replicas_start_as_rank_zero, forwards_begin_right_and_add_their_own_samples,
                 buffers::backward_changes_no_buffer},
      .judges_each_step = true,
      .labels = {{"three ranks and more", 0.3, has_three_ranks<Stateful>},
                 {"batches of unequal size", 0.06, has_unequal_batches},
                 {"buffers that are broadcast", 0.3,
                  [](const Stateful& c) { return c.options.broadcast_buffers; }},
                 {"buffers that are replaced", 0.1,
                  [](const Stateful& c) { return c.reassigned; }}},
      .unused = {"dtype", "values", "seed"},
  });
}

}  // namespace lockstep::scenarios::buffers_every_kind_is_followed
