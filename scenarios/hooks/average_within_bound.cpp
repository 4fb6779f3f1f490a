// With a communication hook every rank holds an average of the gradients that is off by no more
// than the hook's bound, and sends as few bytes as the hook promises.
//
// Gradients are prescribed, so the reference is their average in double precision. A hook that
// compresses rounds them first to what it sends; then ranks sum in that dtype, in any order, which
// docs/numerics.md bounds. In bytes each element is off by at most half a step of its chunk; where
// several gradients share a bucket its chunk is not known, but none has a larger step than all the
// gradients of its rank. "noop" averages nothing. Where
// gradients are exact the bound is zero, but for bytes.
#include "harness/verdict/compare.h"
#include "scenarios/cases/labels.h"
#include "scenarios/cases/tensors.h"
#include "scenarios/hooks/draw.h"

#include <torch/torch.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>

namespace lockstep::scenarios::hooks_average_within_bound {
namespace {

using namespace hooks;

std::string why_no_reference(const Hooked& c) {
  if (c.hook.kind == HookKind::power_sgd) return "PowerSGD does not average";
  if (c.options.skip_all_reduce_unused_params)
    return "what is sent besides gradients is counted without skip_all_reduce_unused_params";
  if (const auto why = why_too_large(c); !why.empty()) return why;
  if (const auto why = why_not_joined(c); !why.empty()) return why;
  for (int step = 0; c.values == Values::exact && step < steps_of(c); ++step)
    if (const auto why = why_not_exact(c, step); !why.empty()) return why;
  return why_rounded_twice(c);
}

// In what a hook receives and sends: rounded once, unless gradients are exact. As many as the
// divisor: zeros of ranks without inputs count where that is the world's size.
std::vector<reference::Rounded> sent(const Hooked& c, int step, size_t p,
                                     const reference::Format& format) {
  std::vector<reference::Rounded> out;
  for (int rank = 0; rank < c.world.size; ++rank) {
    if (divisor_in(c, step) < c.world.size && !has_input(c, step, rank)) continue;
    const auto own = gradient_of(c, step, rank, p).to(at::kDouble);
    auto error = at::zeros_like(own);
    if (!format.exact) error = own.abs() * format.roundoff() + format.underflow();
    out.push_back({own, error});
  }
  return out;
}

// The rounding of a byte, and of the number that it stands for, by the largest number: bytes of
// float64 are computed in float64, all others in float32.
double rounding_of_bytes(const Hooked& c) {
  return std::ldexp(1.0, sent_dtype(c) == Dtype::float64 ? -49 : -20);
}

// Half a step of a chunk, at most, and what is rounded; on average over the ranks.
double error_of_bytes(const Hooked& c, int step) {
  double sum = 0;
  for (int rank = 0; rank < c.world.size; ++rank) {
    double least = 0, most = 0;
    for (size_t p = 0; p < parameter_count(c); ++p) {
      const auto own = gradient_of(c, step, rank, p).to(at::kDouble);
      least = std::min(least, own.min().item<double>());
      most = std::max(most, own.max().item<double>());
    }
    const double size = std::max(most, -least);
    sum += (most - least) / 255 * 0.501 + size * rounding_of_bytes(c);
  }
  return sum / divisor_in(c, step);
}

// True if each gradient has a bucket of its own in this step, so that its chunks are known.
bool has_its_own_bucket(const Hooked& c, int step) {
  return parameter_count(c) == 1 || (c.options.bucket_cap_bytes == 1 && step > 0);
}

// The same by element: half a step of the element's own chunk. The last chunk may be short; here it
// is filled with its last element, which changes neither of its ends.
at::Tensor error_of_chunks(const Hooked& c, int step, size_t p) {
  const auto chunk = c.hook.chunk;
  at::Tensor sum;
  for (const auto& own : received(c, step, p)) {
    const auto elements = own.numel();
    const auto filling = (elements + chunk - 1) / chunk * chunk - elements;
    const auto row = own.reshape({-1});
    const auto chunks =
        at::cat({row, row.slice(0, elements - 1).expand({filling})}).view({-1, chunk});
    const auto [least, most] = at::aminmax(chunks, /*dim=*/1, /*keepdim=*/true);
    const auto size = at::maximum(least.abs(), most.abs());
    const auto error = (most - least) / 255 * 0.501 + size * rounding_of_bytes(c);
    const auto by_element = error.expand_as(chunks).reshape({-1}).slice(0, 0, elements);
    sum = sum.defined() ? sum + by_element : by_element;
  }
  return sum.view_as(received(c, step, p).front()) / divisor_in(c, step);
}

std::vector<reference::Rounded> expected(const Hooked& c, int step, size_t p) {
  if (c.hook.kind == HookKind::noop) {
    std::vector<reference::Rounded> own;
    for (const auto& each : received(c, step, p)) own.push_back(reference::given(each));
    return own;
  }
  const auto format = format_of(c);
  auto average = reference::Arithmetic(format).average(sent(c, step, p, format));
  if (turns_into_bytes(c) && has_its_own_bucket(c, step))
    average.error = average.error + error_of_chunks(c, step, p);
  else if (turns_into_bytes(c))
    average.error = average.error + error_of_bytes(c, step);
  // The sum, which is off by half a step, is rounded once more.
  if (turns_into_bytes(c)) average.error = average.error * (1 + 4 * format.roundoff());
  return {average};
}

void expect_nothing_without_input(const Hooked& c, int step, Comparison& row) {
  const auto ranks = row.row.by_rank.size();
  if (row.expected.size() == 1) {
    row.expected.assign(ranks, TensorValue(row.expected.front()));
    row.bounds.assign(ranks, TensorValue(row.bounds.front()));
  }
  for (size_t rank = 0; rank < ranks; ++rank) {
    if (has_input(c, step, static_cast<int>(rank))) continue;
    row.expected[rank] = nothing(c);
    row.bounds[rank] = recorded(at::empty({0}, at::kDouble), at::kDouble);
  }
}

Findings averages_are_within_the_bound(const Hooked& c, const History& h) {
  Findings out;
  for (int step = 0; step < steps_of(c); ++step) {
    std::vector<Comparison> rows;
    for (size_t p = 0; p < parameter_count(c); ++p) {
      Comparison row{.row = h.row({step, "after backward"}, name_of(p)), .expected = {}};
      for (const auto& each : expected(c, step, p)) {
        const auto right = written(each, dtype_of(c));
        row.expected.push_back(right.value);
        row.bounds.push_back(right.bound);
      }
      expect_nothing_without_input(c, step, row);
      row.explanations = [&c, step, p] {
        std::vector<TensorValue> own;
        at::Tensor sum;
        for (int rank = 0; rank < c.world.size; ++rank) {
          const auto gradient = gradient_of(c, step, rank, p).to(at::kDouble);
          own.push_back(recorded(gradient, dtype_of(c)));
          sum = sum.defined() ? sum + gradient : gradient;
        }
        const auto is = [&](const char* kind, const char* text, const at::Tensor& value) {
          return recorded_instead({kind, text}, {recorded(value, dtype_of(c))});
        };
        return Explanations{
            recorded_instead({"not_reduced", "each rank's own gradient, never averaged"}, own),
            is("sum_not_average", "the sum over the ranks, not divided", sum),
            is("divided_twice", "the sum divided twice by the world size",
               sum / (c.world.size * c.world.size)),
            is("divided_by_all", "the sum divided by the world's size", sum / c.world.size)};
      };
      rows.push_back(std::move(row));
    }
    out += equal(
        "With a communication hook every rank must hold the average, as near as the hook "
        "promises",
        rows);
  }
  return out;
}

Findings ranks_hold_the_same_bits(const Hooked& c, const History& h) {
  if (c.hook.kind == HookKind::noop) return {};
  Findings out;
  for (int step = 0; step < steps_of(c); ++step) {
    std::vector<Row> rows;
    for (size_t p = 0; p < parameter_count(c); ++p) rows.push_back(held_after(c, h, step, p));
    out += alike("Every rank must hold the same bits as the others", rows);
  }
  return out;
}

// The number of elements in the flag of a subject that has one (docs/semantics.md 2.3): eight
// counts of up to the world size, as many in one element as are exact in its dtype.
int64_t flag_elements(const Hooked& c) {
  constexpr int kCounts = 8;
  const auto count_bits = static_cast<int>(std::bit_width(static_cast<unsigned>(c.world.size)));
  const int in_element = std::clamp(bits_of(c.dtype) / count_bits, 1, kCounts);
  return (kCounts + in_element - 1) / in_element;
}

// Elements that carry gradients, and the flag of a subject that has one, where it has their dtype.
// Anything else that is sent, such as maps of used parameters, has another dtype or operation.
int64_t elements_sent(const Hooked& c, const History& h, int rank, int step) {
  int64_t elements = 0;
  for (const auto& each : h.collectives(rank, {step, "backward"})) {
    if (c.hook.kind == HookKind::quantize || c.hook.kind == HookKind::gathered) {
      if (each.op == "allgather" || each.op == "_allgather_base") elements += each.elements;
    } else if (each.op == "allreduce" && each.dtype == word_of(sent_dtype(c))) {
      elements += each.elements;
    }
  }
  return elements;
}

Findings as_few_bytes_as_promised(const Hooked& c, const History& h) {
  if (c.hook.kind == HookKind::noop || has_join(c)) return {};
  const bool flag_is_alike = sent_dtype(c) == c.dtype;
  Findings out;
  for (int step = 0; step < c.steps; ++step) {
    const auto seen = elements_sent(c, h, 0, step);
    const auto all = elements_of(c);
    // Chunks are padded, and each has two numbers of up to 8 bytes.
    const auto chunk = c.hook.chunk;
    const auto most =
        turns_into_bytes(c)
            ? (static_cast<int64_t>(parameter_count(c)) + all / chunk + 1) * (chunk + 16) + all
            : all + (c.hook.kind != HookKind::gathered && flag_is_alike ? flag_elements(c) : 0);
    if (seen >= all && seen <= most) continue;
    out.push_back({"A communication hook must send what it promises, and no more", "other_bytes",
                   "step " + std::to_string(step),
                   "rank 0 sends " + std::to_string(seen) + " elements of gradients, expected " +
                       std::to_string(all) + (all == most ? "" : " to " + std::to_string(most))});
    return out;
  }
  return out;
}

bool sends_another_dtype(const Hooked& c) {
  return sent_dtype(c) != c.dtype;
}

}  // namespace

Scenario average_within_bound() {
  return scenario<Hooked>({
      .name = "hooks.average_within_bound",
      .claim = "With a communication hook every rank holds the same average, within the hook's "
               "rounding.",
      .in_full =
          "With a communication hook every rank holds the same average of the gradients, off "
          "by no more than what the hook sends must round, and sends no more than that.",
      .exactness = "bit-equal · rounded: bounded",
      .source = "torch.distributed.algorithms.ddp_comm_hooks; docs/semantics.md 2.9",
      .not_covered = "gradients too large for float16, unused parameters, sparse gradients",
      .usual_mistake = "summing in half precision before dividing, or dividing twice.",
      .tags = {"hooks", "gradients"},
      .must_catch = {"flag_of_one_element_more", "hook_compresses_a_sum", "hook_result_dropped",
                     "hook_divides_the_sum", "hook_sends_what_it_received",
                     "quantization_fills_with_the_first_element", "quantization_forgets_the_least",
                     "quantization_truncates", "compression_divides_by_the_world",
                     "quantization_divides_by_the_world",
                     "gradients_of_a_given_buffer_begin_where_it_begins",
                     "quantization_rounds_doubles_to_float32"},
      .draws = 150,
      .start = {.world = {.size = 2}},
      .every = every_averaging,
      .cases = averaging(),
      .precondition = why_no_reference,
      .program = program,
      .checks = {averages_are_within_the_bound, ranks_hold_the_same_bits, as_few_bytes_as_promised,
                 the_log_names_the_hook},
      .labels =
          {{"three ranks and more", 0.4, has_three_ranks<Hooked>},
           {"gradients in fewer bits", 0.2, sends_another_dtype},
           {"gradients in bytes", 0.12, turns_into_bytes},
           {"real values", 0.3, has_real_values<Hooked>},
           {"sums beyond the range of what is sent", 0.02,
            [](const Hooked& c) {
              return has_real_values<Hooked>(c) && c.magnitude_log2 > 14 &&
                     c.magnitude_log2 == magnitude_log2_max(c);
            }},
           {"a gradient of three axes", 0.04,
            [](const Hooked& c) { return std::ranges::any_of(c.sizes, has_several_axes); }},
           {"ranks without inputs", 0.15, has_uneven_inputs},
           {"a divisor of those that have inputs", 0.04,
            [](const Hooked& c) { return has_uneven_inputs(c) && c.divisor == JoinKind::live; }},
           {"thousands of elements", 0.1, [](const Hooked& c) { return elements_of(c) > 1000; }}},
      .unused = {"reload", "first_pass", "hook.matrix_rank", "hook.compression_log2",
                 "hook.random_seed", "hook.start", "hook.use_error_feedback", "hook.warm_start",
                 "is_constant"},
  });
}

}  // namespace lockstep::scenarios::hooks_average_within_bound
