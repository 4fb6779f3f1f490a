#include "scenarios/buffers/experiment.h"

#include "harness/cases/generators.h"
#include "harness/rank/tensors.h"
#include "scenarios/cases/network.h"
#include "scenarios/cases/options.h"

#include <torch/torch.h>

namespace lockstep::scenarios::buffers {

namespace {

Comparison comparison(Row row, const std::vector<State>& by_rank, size_t buffer) {
  Comparison out{.row = std::move(row), .expected = {}};
  for (const auto& state : by_rank) {
    out.expected.push_back(state[buffer].value);
    if (state[buffer].bound) out.bounds.push_back(*state[buffer].bound);
  }
  return out;
}

std::vector<TensorValue> values(const std::vector<State>& by_rank, size_t buffer) {
  std::vector<TensorValue> out;
  for (const auto& state : by_rank) out.push_back(state[buffer].value);
  return out;
}

// The average of the ranks' buffers, in their dtype; of whole numbers without its fraction.
TensorValue averaged(const std::vector<TensorValue>& by_rank) {
  const auto& like = by_rank.front();
  const auto type = scalar_type(value_of_word<Dtype>(like.dtype).value());
  const auto numbers = [&](const TensorValue& one) {
    return at::isFloatingType(type) ? torch::tensor(as_doubles(one), at::kDouble)
                                    : torch::tensor(as_integers(one), at::kLong);
  };
  auto sum = numbers(like);
  for (size_t rank = 1; rank < by_rank.size(); ++rank) sum = sum + numbers(by_rank[rank]);
  const auto ranks = static_cast<int64_t>(by_rank.size());
  const auto average = at::isFloatingType(type) ? sum / ranks : at::div(sum, ranks, "trunc");
  return value_of(average.reshape(like.shape).to(type));
}

// The wrong buffers with which a forward may begin.
Explanations wrong_beginnings(const std::vector<State>& kept, size_t buffer) {
  Explanations out{
      recorded_instead({"kept_own_buffers", "the rank's own buffers, where rank 0's belong"},
                       values(kept, buffer)),
      recorded_instead(
          {"took_rank_zeros_buffers", "rank 0's buffers, where this forward must not synchronise"},
          {kept.front()[buffer].value}),
      recorded_instead(
          {"averaged_buffers", "the average of the ranks' buffers, where rank 0's belong"},
          {averaged(values(kept, buffer))})};
  for (size_t rank = 1; rank < kept.size(); ++rank)
    out.push_back(recorded_instead(
        {"took_another_ranks_buffers",
         "the buffers of rank " + std::to_string(rank) + ", where rank 0's belong"},
        {kept[rank][buffer].value}));
  return out;
}

}  // namespace

int64_t message_bytes_of(const Stateful& c) {
  return message_bytes(c.seed + c.forwards.size());
}

void train(const Stateful& c, RankContext& here, const std::shared_ptr<Watched>& model,
           const std::function<at::Tensor(int forward)>& input) {
  const auto replica = wrap(here, model, in_messages(c.options, message_bytes_of(c)));
  const auto kinds = forwards_of(c);
  at::Tensor held;  // outputs whose backward has not run
  for (int f = 0; f < static_cast<int>(kinds.size()); ++f) {
    const auto kind = kinds[static_cast<size_t>(f)];
    const auto look = [&](const char* phase) {
      here.enter(f, phase);
      record_buffers(here, *model);
    };
    const auto forward = [&] {
      const torch::AutoGradMode gradients(kind != ForwardKind::no_grad);
      const auto output = replica->forward(input(f)).sum();
      look("after forward");
      if (kind == ForwardKind::no_grad) return;
      held = held.defined() ? held + output : output;
      if (kind == ForwardKind::held) return;
      replica->backward(held);
      held = at::Tensor();
    };
    model->train(kind != ForwardKind::eval);
    look("before forward");
    model->on_entry = [&] { look("in forward"); };
    kind == ForwardKind::no_sync ? replica->no_sync(forward) : forward();
    look("after backward");
  }
}

namespace {

Findings forwards_begin_as_expected(const History& h, const std::vector<std::string>& names,
                                    const Trajectory& expected) {
  Findings out;
  for (size_t f = 0; f < expected.begins.size(); ++f) {
    std::vector<Comparison> rows;
    for (size_t b = 0; b < names.size(); ++b) {
      rows.push_back(
          comparison(h.row({static_cast<int>(f), "in forward"}, names[b]), expected.begins[f], b));
      rows.back().explanations = [&expected, f, b] {
        return wrong_beginnings(expected.kept[f], b);
      };
    }
    out += equal(
        "A forward must begin with rank 0's buffers where it synchronises them, and with "
        "the rank's own where it does not",
        rows);
  }
  return out;
}

Findings forwards_end_as_expected(const History& h, const std::vector<std::string>& names,
                                  const Trajectory& expected) {
  Findings out;
  for (size_t f = 0; f < expected.after.size(); ++f) {
    std::vector<Comparison> rows;
    for (size_t b = 0; b < names.size(); ++b) {
      rows.push_back(comparison(h.row({static_cast<int>(f), "after forward"}, names[b]),
                                expected.after[f], b));
      rows.back().explanations = [&expected, f, b] {
        return Explanations{
            recorded_instead({"broadcast_after_forward",
                              "rank 0's buffers: they were broadcast after the forward, not before "
                              "it, and the rank's own batch is lost"},
                             {expected.after[f].front()[b].value}),
            recorded_instead({"own_batch_left_out", "what it was before the forward"},
                             values(expected.begins[f], b))};
      };
    }
    out += equal(
        "A forward in training must add the rank's own batch, and nothing else, to what it "
        "began with",
        rows);
  }
  return out;
}

}  // namespace

Findings start_is_rank_zeros(const Stateful& c, const History& h,
                             const std::vector<std::string>& names,
                             const std::vector<State>& built) {
  std::vector<Comparison> rows;
  for (size_t b = 0; b < names.size(); ++b) {
    rows.push_back(
        {.row = h.row({0, "before forward"}, names[b]), .expected = {built.front()[b].value}});
    rows.back().explanations = [&c, &built, b] {
      return initial_states(values(built, b), cause_of_unlike_buffers(c.options));
    };
  }
  return equal("Every replica must start from rank 0's buffers", rows);
}

Findings forwards_are_as_expected(const History& h, const std::vector<std::string>& names,
                                  const Trajectory& expected) {
  auto out = forwards_begin_as_expected(h, names, expected);
  out += forwards_end_as_expected(h, names, expected);
  return out;
}

Findings backward_changes_no_buffer(const Stateful& c, const History& h) {
  Findings out;
  for (int f = 0; f < static_cast<int>(forwards_of(c).size()); ++f) {
    std::vector<Comparison> rows;
    for (const auto& after : h.rows("after backward"))
      if (after.at.step == f)
        rows.push_back({.row = after, .expected = h.row({f, "after forward"}, after.name).by_rank});
    out += equal("A backward must change no buffer", rows);
  }
  return out;
}

rc::Gen<Stateful> cases(const std::vector<ForwardKind>& kinds) {
  using rc::gen::inRange;
  const auto world = gen::build<WorldSpec>(gen::set(&WorldSpec::size, inRange(2, 5)));
  return gen::build<Stateful>(
      gen::set(&Stateful::world, world),
      gen::set(&Stateful::forwards, gen::lists(1, 4, rc::gen::elementOf(kinds))),
      gen::set(&Stateful::samples, gen::lists(0, 3, inRange(1, 5))),
      gen::set(&Stateful::options,
               gen::build<WrapOptions>(gen::set(&WrapOptions::broadcast_buffers))),
      gen::set(&Stateful::dtype, rc::gen::element(Dtype::float32, Dtype::float64)),
      gen::set(&Stateful::values, rc::gen::element(Values::exact, Values::real)),
      gen::set(&Stateful::seed, inRange<uint64_t>(0, 1 << 20)));
}

}  // namespace lockstep::scenarios::buffers
