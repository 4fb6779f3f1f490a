// Each collective that a program calls gives each rank what its name says, and nothing else: the
// ranks that do not receive keep what they had.
//
// Numbers are so small, and so are their sums and products, that no dtype rounds them; an average
// is of multiples of the world size. So the expected values are whole numbers, computed here by
// loops over the ranks. A tensor may have strides, and lie in another order in memory: what is
// received then has to arrive in it, not in a copy. Several collectives run in one case, on one
// group, whose order they share.
#include "harness/cases/generators.h"
#include "harness/cases/scenario.h"
#include "harness/rank/rank_context.h"
#include "harness/verdict/compare.h"
#include "harness/worlds/subject.h"
#include "scenarios/cases/devices.h"
#include "scenarios/cases/labels.h"
#include "scenarios/collectives/called.h"
#include "scenarios/collectives/late_rank.h"
#include "scenarios/collectives/printed.h"

#include <torch/torch.h>

#include <algorithm>

namespace lockstep::scenarios::collectives_give_what_their_names_say {
namespace {

using namespace collectives;

bool is_negated(const Call& call) {
  return call.layout == Layout::lazy &&
         (call.dtype == Dtype::float32 || call.dtype == Dtype::float64);
}

// The same values in the layout of the case, on the device of the rank.
at::Tensor laid_out(const at::Tensor& values, const Call& call, const at::Device& device) {
  const auto options = values.options().device(device);
  at::Tensor out = at::zeros({call.rows, kColumns}, options);
  if (call.layout == Layout::strided)
    out = at::zeros({call.rows, 2 * kColumns}, options).slice(1, 0, {}, 2);
  if (call.layout == Layout::transposed) out = at::zeros({kColumns, call.rows}, options).t();
  if (call.layout == Layout::lazy && call.dtype == Dtype::complex64) out = out.conj();
  if (is_negated(call))
    out = at::imag(
        at::zeros(out.sizes(), options.dtype(at::toComplexType(out.scalar_type()))).conj());
  return out.copy_(values);
}

void program(const Called& c, RankContext& here) {
  const auto calls = calls_of(c);
  for (size_t number = 0; number < calls.size(); ++number) {
    const Call& call = calls[number];
    const bool is_of_one_rank = call.kind == CollectiveKind::reduce ||
                                call.kind == CollectiveKind::gather ||
                                call.kind == CollectiveKind::scatter;
    if (is_of_one_rank && backend_name(here) == "accelerator")
      throw Unsupported("the simulated accelerator has no reduce, gather and scatter");
  }
  for (size_t number = 0; number < calls.size(); ++number) {
    const Call& call = calls[number];
    here.enter(static_cast<int>(number), word_of(call.kind));
    if (number == 0) print_a_line(here);
    ProgramCollective sent{.kind = call.kind,
                           .tensor = laid_out(given(c, number, here.rank()), call, here.device()),
                           .reduction = call.reduction,
                           .root = root_of(c, call),
                           .parts = {}};
    const auto members = members_of(c, call);
    const bool is_root = members[static_cast<size_t>(sent.root)] == here.rank();
    for (size_t part = 0; call.kind == CollectiveKind::scatter && is_root && part < members.size();
         ++part)
      sent.parts.push_back(
          laid_out(given(c, number, here.rank(), static_cast<int>(part)), call, here.device()));
    if (has_own_group(c, call)) sent.ranks = members;
    if (call.descending) std::ranges::reverse(sent.ranks);
    if (has_own_group(c, call)) sent.groups_before = call.groups_before;
    const auto received = collective(here, sent);
    here.record("tensor", as_recorded(sent.tensor.cpu().contiguous()));
    if (gathers(call))
      here.record(
          "received",
          as_recorded(received.empty() ? at::zeros({0}, sent.tensor.options().device(at::kCPU))
                                       : at::stack(received).cpu()));
  }
  if (late_rank(c) >= 0) wait_for_the_late_rank(c, here);
}

Findings tensors_hold_what_was_received(const Called& c, const History& h) {
  std::vector<Comparison> rows;
  const auto calls = calls_of(c);
  for (size_t number = 0; number < calls.size(); ++number)
    rows.push_back({.row = h.row({static_cast<int>(number), word_of(calls[number].kind)}, "tensor"),
                    .expected = expected_tensors(c, number),
                    .explanations = [&c, number] { return mistakes_of(c, number); }});
  return equal("A rank's tensor must hold what the collective gives it, or be left alone", rows);
}

Findings gathers_return_all_tensors(const Called& c, const History& h) {
  std::vector<Comparison> rows;
  const auto calls = calls_of(c);
  for (size_t number = 0; number < calls.size(); ++number)
    if (gathers(calls[number]))
      rows.push_back(
          {.row = h.row({static_cast<int>(number), word_of(calls[number].kind)}, "received"),
           .expected = expected_gathers(c, number)});
  return equal("A gather must return every rank's tensor, in rank order, to those that receive",
               rows);
}

// A rank that passed it alone would have sent nothing.
Findings barriers_wait(const Called& c, const History& h) {
  const auto calls = calls_of(c);
  for (size_t number = 0; number < calls.size(); ++number) {
    const Call& call = calls[number];
    if (moves_numbers(call) || has_own_group(c, call) || c.world.size == 1) continue;
    const Moment at{static_cast<int>(number), word_of(call.kind)};
    for (int rank = 0; rank < c.world.size; ++rank)
      if (h.collectives(rank, at).empty())
        return {{"A barrier must wait for the other ranks", "passed_alone",
                 "call " + std::to_string(number) + ", barrier",
                 "rank " + std::to_string(rank) + " exchanged nothing with the others"}};
  }
  return {};
}

std::vector<Called> each_alone() {
  std::vector<Called> all;
  for (const auto kind : {CollectiveKind::all_reduce, CollectiveKind::reduce,
                          CollectiveKind::broadcast, CollectiveKind::all_gather,
                          CollectiveKind::gather, CollectiveKind::scatter, CollectiveKind::barrier})
    for (const int world : {1, 2, 3})
      for (const auto layout : {Layout::contiguous, Layout::strided, Layout::transposed})
        all.push_back({.world = {.size = world},
                       .calls = {{.kind = kind, .root = world - 1, .rows = 3, .layout = layout}},
                       .seed = 1});
  all.push_back(
      {.world = {.size = 3}, .calls = {{.members = 3, .groups_before = 1, .rows = 3}}, .seed = 1});
  for (const auto reduction : {ReductionKind::band, ReductionKind::bor, ReductionKind::bxor})
    for (const auto dtype : {Dtype::int64, Dtype::bool_})
      all.push_back({.world = {.size = 3},
                     .calls = {{.reduction = reduction, .rows = 9, .dtype = dtype}},
                     .seed = 1});
  for (const auto kind : {CollectiveKind::all_reduce, CollectiveKind::broadcast,
                          CollectiveKind::gather, CollectiveKind::barrier})
    all.push_back({.world = {.size = 2}, .calls = {{.kind = kind}}, .late = 1, .seed = 1});
  return all;
}

rc::Gen<Called> cases() {
  using rc::gen::element;
  using rc::gen::inRange;
  const auto call = gen::map(
      gen::build<Call>(
          gen::set(&Call::kind, element(CollectiveKind::all_reduce, CollectiveKind::reduce,
                                        CollectiveKind::broadcast, CollectiveKind::all_gather,
                                        CollectiveKind::gather, CollectiveKind::scatter,
                                        CollectiveKind::barrier)),
          gen::set(&Call::reduction,
                   element(ReductionKind::sum, ReductionKind::avg, ReductionKind::product,
                           ReductionKind::min, ReductionKind::max, ReductionKind::band,
                           ReductionKind::bor, ReductionKind::bxor)),
          gen::set(&Call::root, inRange(0, 6)),
          gen::set(&Call::members,
                   rc::gen::weightedOneOf<int>({{2, rc::gen::just(0)}, {1, inRange(1, 64)}})),
          gen::set(&Call::descending), gen::set(&Call::groups_before, element(0, 1, 2)),
          gen::set(&Call::rows,
                   rc::gen::weightedOneOf<int64_t>(
                       {{8, inRange<int64_t>(0, 40)}, {1, inRange<int64_t>(1000, 20'000)}})),
          gen::set(&Call::dtype,
                   element(Dtype::float32, Dtype::float32, Dtype::float64, Dtype::float16,
                           Dtype::bfloat16, Dtype::int64, Dtype::int32, Dtype::int16, Dtype::uint8,
                           Dtype::bool_, Dtype::complex64)),
          gen::set(&Call::layout,
                   element(Layout::contiguous, Layout::strided, Layout::transposed, Layout::lazy))),
      [](Call call) {
        if (is_refused(call))
          call.reduction = call.dtype == Dtype::bool_ ? ReductionKind::max : ReductionKind::sum;
        return call;
      });
  const auto world = gen::build<WorldSpec>(gen::set(&WorldSpec::size, element(2, 2, 3, 3, 4, 6)));
  return gen::build<Called>(
      gen::set(&Called::world, world), gen::set(&Called::calls, gen::lists(1, 5, call)),
      gen::set(&Called::late,
               rc::gen::weightedOneOf<int>({{7, rc::gen::just(-1)}, {1, inRange(0, 6)}})),
      gen::set(&Called::seed, inRange<uint64_t>(0, 1 << 20)));
}

bool has_call(const Called& c, bool (*is)(const Called&, const Call&)) {
  return std::ranges::any_of(calls_of(c), [&](const Call& call) { return is(c, call); });
}

bool has_another_root(const Called& c, const Call& call) {
  return moves_numbers(call) && call.kind != CollectiveKind::all_reduce &&
         call.kind != CollectiveKind::all_gather && root_of(c, call) != 0;
}

}  // namespace

Scenario give_what_their_names_say() {
  return scenario<Called>({
      .name = "collectives.give_what_their_names_say",
      .claim = "A collective gives each rank what its name says, in the rank's own tensor.",
      .in_full =
          "A program's all_reduce, reduce, broadcast, all_gather, gather and scatter give each "
          "rank what their names say, in its own tensor, and leave the others' alone; a barrier "
          "waits; and a group of some ranks does so for these. A call waits as long as its own "
          "timeout says. A line is printed on rank 0 alone.",
      .exactness = "bit-equal",
      .source = "torch.distributed; train/collectives.h",
      .not_covered = "ranks that disagree",
      .usual_mistake = "reading the tensor of a reduce on a rank that is not its destination.",
      .tags = {"core", "collectives"},
      .must_catch = {"barrier_passes_alone", "broadcast_of_a_program_from_rank_zero",
                     "call_waits_as_long_as_its_group", "complex_reduce_writes_everywhere",
                     "conjugate_sent_as_it_lies", "every_rank_prints", "exclusive_or_taken_for_or",
                     "gather_in_another_order", "new_group_takes_the_order_given",
                     "new_group_waits_as_long_as_its_parent", "received_into_a_copy",
                     "reduce_writes_everywhere", "timeout_of_a_call_stays"},
      .draws = 80,
      .start = {.world = {.size = 2}},
      .every = each_alone,
      .cases = cases(),
      .precondition = why_not_called,
      .program = program,
      .checks = {tensors_hold_what_was_received, gathers_return_all_tensors, barriers_wait,
                 calls_end_in_time, rank_zero_alone_prints},
      .labels = {{"three ranks and more", 0.4, has_three_ranks<Called>},
                 {"a root that is not rank 0", 0.35,
                  [](const Called& c) { return has_call(c, has_another_root); }},
                 {"a tensor with strides", 0.4,
                  [](const Called& c) {
                    return has_call(c, [](const Called&, const Call& call) {
                      return call.layout != Layout::contiguous;
                    });
                  }},
                 {"a group of some ranks", 0.3,
                  [](const Called& c) { return has_call(c, has_own_group); }},
                 {"a group of one", 0.05,
                  [](const Called& c) {
                    return has_call(c, [](const Called& all, const Call& call) {
                      return has_own_group(all, call) && members_of(all, call).size() == 1;
                    });
                  }},
                 {"a group beside others of the same ranks", 0.2,
                  [](const Called& c) {
                    return has_call(c, [](const Called& all, const Call& call) {
                      return has_own_group(all, call) && call.groups_before > 0;
                    });
                  }},
                 {"a barrier", 0.1,
                  [](const Called& c) {
                    return has_call(
                        c, [](const Called&, const Call& call) { return !moves_numbers(call); });
                  }},
                 {"a reduction of bits", 0.05,
                  [](const Called& c) {
                    return has_call(c, [](auto&, const Call& call) { return is_bitwise(call); });
                  }},
                 {"a rank that its peers do not wait for", 0.01,
                  [](const Called& c) { return late_rank(c) >= 0; }},
                 {"whole numbers and bools", 0.3,
                  [](const Called& c) {
                    return has_call(
                        c, [](const Called&, const Call& call) { return !is_floating(call); });
                  }},
                 {"a tensor without elements", 0.03,
                  [](const Called& c) {
                    return has_call(c,
                                    [](const Called&, const Call& call) { return call.rows == 0; });
                  }},
                 {"thousands of elements", 0.12,
                  [](const Called& c) {
                    return has_call(
                        c, [](const Called&, const Call& call) { return call.rows >= 1000; });
                  }}},
  });
}

}  // namespace lockstep::scenarios::collectives_give_what_their_names_say
