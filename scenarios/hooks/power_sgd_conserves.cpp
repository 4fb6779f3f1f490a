// PowerSGD loses nothing: what it applies and what it keeps back are, over the ranks, the gradients
// and what was kept back before. And what it applies is the best of its rank.
//
// With M the average over the ranks of gradient plus what a rank had left out, and A what every
// rank then holds, each step is judged alone:
//   A + the average of what is left out now = M                 nothing is lost (error feedback)
//   A^T (M - A) = 0                                             A is a projection of M, not a
//   fraction A has no more than `matrix_rank` singular values            and so few numbers were
//   sent
// The first holds to a rounding of each rank's numbers, however well A approximates; the other two
// to what orthonormal columns and two products of matrices round. Where gradients are the same in
// every step, the approximation begins warm and nothing is fed back, ten steps find the best
// approximation of the rank: then the rest is that of the singular value decomposition. Gradients
// that the hook does not approximate are averages.
#include "harness/verdict/compare.h"
#include "scenarios/cases/labels.h"
#include "scenarios/cases/tensors.h"
#include "scenarios/hooks/conserved.h"
#include "scenarios/hooks/draw.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>

namespace lockstep::scenarios::hooks_power_sgd_conserves {
namespace {

using namespace hooks;

// A finding like `broken`, of the element that is farthest beyond its bound; none if none is.
Findings within(const Finding& broken, const std::string& what, const at::Tensor& distance,
                const at::Tensor& bound, int step, size_t p) {
  const auto is_off = at::logical_not(distance.abs() <= bound);  // NaN is beyond any bound
  if (!is_off.any().item<bool>()) return {};
  const auto worst = (distance.abs() / bound).nan_to_num(HUGE_VAL).argmax().item<int64_t>();
  const auto at_worst = [&](const at::Tensor& values) {
    return c10::str(values.expand_as(distance).reshape({-1})[worst].item<double>());
  };
  return {{broken.rule, broken.pattern, "step " + std::to_string(step) + ", " + name_of(p),
           name_of(p) + ": " + what + " is off by " + at_worst(distance) + " in element " +
               std::to_string(worst) + ", at most " + at_worst(bound) + " expected"}};
}

template <class Judge>
Findings of_each_step(const Hooked& c, const Judge& judge) {
  Findings out;
  for (int step = static_cast<int>(c.hook.start); step < steps_of(c); ++step)
    for (size_t p = 0; p < parameter_count(c); ++p)
      if (approximates(c, p)) out += judge(step, p);
  return out;
}

Findings nothing_is_lost(const Hooked& c, const History& h) {
  if (!c.hook.use_error_feedback) return {};
  return of_each_step(c, [&](int step, size_t p) {
    if (!is_known_before(c, step)) return Findings();
    int last = step;
    while (!is_known_after(c, last)) ++last;
    const auto s = step_of(c, h, step, last, p);
    return within({"What PowerSGD applies and what it keeps must be the gradients and what it kept "
                   "before",
                   "gradients_lost", "", ""},
                  "applied plus left out", s.applied + s.left_out - s.wanted, s.rounding, step, p);
  });
}

// The average over the ranks of the sizes of what they approximate.
double size_of_wanted(const Step& s) {
  return s.sizes.norm().item<double>();
}

// True if `applied` is a projection of M, within rounding; else what is farthest from it.
Findings projected(const Hooked& c, const Step& s, int step, size_t p) {
  const auto overlap = s.applied.t().mm(s.wanted - s.applied);
  const auto size = size_of(c, p);
  // Orthonormal columns, M^T P, P Q^T and the average round once for each of their terms.
  const double roundings = 8.0 * static_cast<double>(size.rows + c.hook.matrix_rank + c.world.size);
  const double bound = roundings * roundoff(c) * std::pow(size_of_wanted(s), 2);
  return within(
      {"What PowerSGD applies must be the best in its column space", "no_projection", "", ""},
      "A^T (M - A)", overlap, at::full_like(overlap, bound + std::ldexp(1.0, -140)), step, p);
}

Findings what_is_applied_is_a_projection(const Hooked& c, const History& h) {
  if (!is_wide(c)) return {};
  return of_each_step(c, [&](int step, size_t p) {
    if (c.hook.use_error_feedback && !is_known_before(c, step)) return Findings();
    auto s = step_of(c, h, step, step, p);
    auto findings = projected(c, s, step, p);
    s.applied = s.applied / c.world.size;
    if (!findings.empty() && projected(c, s, step, p).empty()) {
      findings.front().pattern = "factor_summed";
      findings.front().diagnosis = name_of(p) + ": every rank applies " +
                                   std::to_string(c.world.size) +
                                   " x (the world size) the projection of the averaged gradients";
    }
    return findings;
  });
}

// A projection on no columns would keep all back for ever.
Findings something_is_applied(const Hooked& c, const History& h) {
  if (!is_wide(c)) return {};
  return of_each_step(c, [&](int step, size_t p) -> Findings {
    if (c.hook.use_error_feedback && !is_known_before(c, step)) return {};
    const auto s = step_of(c, h, step, step, p);
    if (s.applied.any().item<bool>() || !s.wanted.any().item<bool>()) return {};
    return {{"PowerSGD must apply a part of what there is", "all_zero",
             "step " + std::to_string(step) + ", " + name_of(p),
             name_of(p) + ": it applies zeros where the gradients have other numbers"}};
  });
}

bool keeps_back(const Hooked& c, const History& h, int step, size_t p) {
  size_t first = 0;
  while (!has_input(c, step, static_cast<int>(first))) ++first;
  return std::ranges::any_of(h.ranks()[first].events, [&](const Event& event) {
    const auto* const seen = std::get_if<Observation>(&event.what);
    return seen != nullptr && event.at == Moment{step, kLeftOut} && seen->name == name_of(p);
  });
}

// A hook that keeps nothing back in a step that approximates still averages all, as before it.
Findings it_begins_as_asked(const Hooked& c, const History& h) {
  if (!c.hook.use_error_feedback) return {};
  return of_each_step(c, [&](int step, size_t p) -> Findings {
    if (keeps_back(c, h, step, p)) return {};
    return {{"PowerSGD must approximate from its first step on, and keep what it leaves out",
             "began_late", "step " + std::to_string(step) + ", " + name_of(p),
             name_of(p) + ": it keeps nothing back in step " + std::to_string(step) +
                 ", as where it still averages, although it is to begin in step " +
                 std::to_string(c.hook.start) +
                 (c.reload > 0 && c.reload <= step
                      ? "; it was saved and loaded before step " + std::to_string(c.reload)
                      : "")}};
  });
}

Findings its_rank_is_as_asked(const Hooked& c, const History& h) {
  if (!is_wide(c)) return {};
  return of_each_step(c, [&](int step, size_t p) {
    const auto matrix = applied(c, h, step, p);
    if (!matrix.isfinite().all().item<bool>())  // no singular values either
      return Findings{{"What PowerSGD applies of finite gradients must be finite", "not_finite",
                       "step " + std::to_string(step) + ", " + name_of(p),
                       name_of(p) + ": it applies numbers that are not finite"}};
    const auto rest = at::linalg_svdvals(matrix).slice(0, c.hook.matrix_rank);
    const auto rank = static_cast<double>(c.hook.matrix_rank);
    const double bound = 8 * (rank + 1) * (rank + 1) * roundoff(c) * matrix.norm().item<double>();
    return within(
        {"What PowerSGD applies must be of the rank that was asked for", "another_rank", "", ""},
        "a singular value behind the first " + std::to_string(c.hook.matrix_rank), rest,
        at::full_like(rest, bound + std::ldexp(1.0, -140)), step, p);
  });
}

// Only where the singular value behind the rank is at most half of the last one within.
Findings it_finds_the_best(const Hooked& c, const History& h) {
  const bool converges = c.is_constant && c.values == Values::real && c.hook.warm_start &&
                         !c.hook.use_error_feedback && is_wide(c) && !has_join(c) &&
                         c.steps >= c.hook.start + kStepsToConverge;
  if (!converges) return {};
  Findings out;
  for (size_t p = 0; p < parameter_count(c); ++p) {
    if (!approximates(c, p)) continue;
    const int step = c.steps - 1;
    const auto s = step_of(c, h, step, step, p);
    const auto values = at::linalg_svdvals(s.wanted);
    if (c.hook.matrix_rank >= values.numel()) continue;  // then nothing is left out
    const auto last = values[c.hook.matrix_rank - 1].item<double>();
    const auto rest = values.slice(0, c.hook.matrix_rank);
    if (!(rest[0].item<double>() * 2 <= last)) continue;
    const auto missing = (s.wanted - s.applied).norm();
    const auto size = size_of(c, p);
    const double rounding =
        8.0 * static_cast<double>(size.rows + size.columns) * roundoff(c) * size_of_wanted(s);
    out += within({"PowerSGD that begins warm must find the best approximation of its rank",
                   "not_the_best", "", ""},
                  "the rest of the gradients", missing.view({1}),
                  (rest.norm() * 1.01 + rounding).view({1}), step, p);
  }
  return out;
}

Findings the_others_are_averages(const Hooked& c, const History& h) {
  Findings out;
  for (int step = 0; step < steps_of(c); ++step)
    for (size_t p = 0; p < parameter_count(c); ++p) {
      if (approximates(c, p) && step >= c.hook.start) continue;
      const auto own = received_matrices(c, step, p);
      const double bits = is_wide(c) ? roundoff(c) : std::ldexp(1.0, -8);
      auto sizes = average_size(own);
      // PyTorch's keeps back of an average, too, by what it differs from the rank's own gradients.
      for (int s = step - 1; s >= c.hook.start && keeps_back(c, h, s, p); --s)
        sizes = sizes + average_size(received_matrices(c, s, p)) * 2;
      const auto bound = sizes * (bits * 2 * (c.world.size + 1)) + std::ldexp(1.0, -23);
      out += within({"A gradient that PowerSGD does not approximate must be the average",
                     "not_the_average", "", ""},
                    "the average", applied(c, h, step, p) - average(own), bound, step, p);
    }
  return out;
}

// A matrix whose columns P spans is applied whole, whatever the numbers were.
Findings another_seed_draws_other_numbers(const Hooked& c, const History& h) {
  if (!has_another_seed(c) || !is_wide(c) || c.is_constant || c.values != Values::real) return {};
  const int step = static_cast<int>(c.hook.start);
  for (size_t p = 0; p < parameter_count(c); ++p) {
    const auto size = size_of(c, p);
    if (!approximates(c, p) || c.hook.matrix_rank >= std::min(size.rows, size.columns)) continue;
    if (!at::equal(applied(c, h, step, p), applied(c, h, c.steps, p))) continue;
    return {{"PowerSGD must draw the numbers that it begins with by its random seed",
             "random_seed_ignored", "step " + std::to_string(step) + ", " + name_of(p),
             name_of(p) + ": hooks with random_seed " + std::to_string(c.hook.random_seed) +
                 " and " + std::to_string(c.hook.random_seed + 1) + " apply the same bits"}};
  }
  return {};
}

// Elements of what the hook has before a step, and of what it sends in place of them.
Findings it_counts_what_it_sends(const Hooked& c, const History& h) {
  if (has_join(c) || c.reload > 0) return {};
  int64_t before = 0, after = 0;
  for (size_t p = 0; p < parameter_count(c); ++p) {
    const int64_t rows = size_of(c, p).rows, columns = size_of(c, p).columns;
    const int64_t all = rows * std::max<int64_t>(columns, 1);
    before += all;
    after +=
        approximates(c, p) ? (rows + columns) * std::min({c.hook.matrix_rank, rows, columns}) : all;
  }
  const auto steps = std::max<int64_t>(c.steps - c.hook.start, 0) + (has_first_pass(c) ? 1 : 0);
  const auto row = h.row({c.steps, kCounted}, kSent);
  if (row.by_rank.front().bytes.empty()) return {};  // a subject that does not say
  return equal("PowerSGD must count the elements that it had, and those that it sent instead",
               {{.row = row, .expected = {int64_values({before * steps, after * steps})}}});
}

Findings ranks_hold_the_same_bits(const Hooked& c, const History& h) {
  Findings out;
  for (int step = 0; step < steps_of(c); ++step) {
    std::vector<Row> rows;
    for (size_t p = 0; p < parameter_count(c); ++p) rows.push_back(held_after(c, h, step, p));
    out += alike("Every rank must hold the same bits as the others", rows);
  }
  return out;
}

Findings a_loaded_hook_continues(const Hooked& c, const History& h) {
  if (!has_one_to_compare(c)) return {};
  constexpr double kRoundings = 0.01;
  return of_each_step(c, [&](int step, size_t p) -> Findings {
    if (step < c.reload) return {};
    const auto right = never_loaded(h, step, p);
    const double bound = kRoundings * right.norm().item<double>() + std::ldexp(1.0, -140);
    return within({"PowerSGD that was loaded must go on as one that was never saved",
                   "not_as_never_loaded", "", ""},
                  "loaded less never loaded", applied(c, h, step, p) - right,
                  at::full_like(right, bound), step, p);
  });
}

std::string why_no_reference(const Hooked& c) {
  if (c.hook.kind != HookKind::power_sgd) return "the hook is not PowerSGD";
  if (const auto why = why_too_large(c); !why.empty()) return why;
  if (const auto why = why_not_joined(c); !why.empty()) return why;
  return why_rounded_twice(c);
}

bool has_approximated(const Hooked& c) {
  for (size_t p = 0; p < parameter_count(c); ++p)
    if (approximates(c, p) && steps_of(c) > c.hook.start) return true;
  return false;
}

}  // namespace

Scenario power_sgd_conserves() {
  return scenario<Hooked>({
      .name = "hooks.power_sgd_conserves",
      .claim = "PowerSGD applies one best low-rank approximation on all ranks, and loses nothing.",
      .in_full =
          "PowerSGD applies on every rank the best approximation in its column space, of the "
          "rank that was asked for, and loses nothing: what it leaves out comes later.",
      .exactness = "within rounding",
      .source = "Vogels et al. 2019; ddp_comm_hooks.powerSGD_hook; docs/semantics.md 2.9",
      .not_covered =
          "how fast a training converges, what it applies of gradients that are not finite",
      .usual_mistake = "approximating each rank's gradients before they are averaged.",
      .tags = {"hooks", "gradients"},
      .must_catch = {"hook_leaves_gradients_behind",       "power_sgd_begins_cold",
                     "power_sgd_factors_of_one_rank",      "power_sgd_keeps_a_view",
                     "power_sgd_loads_no_generator",       "power_sgd_loads_no_passes",
                     "power_sgd_p_left_as_it_is",          "power_sgd_compares_no_rate",
                     "power_sgd_counts_the_larger_side",   "power_sgd_ignores_its_seed",
                     "power_sgd_matrices_alone",           "power_sgd_q_summed",
                     "power_sgd_residual_never_added",     "power_sgd_rounds_away",
                     "power_sgd_averages_over_the_world",  "power_sgd_q_over_the_world",
                     "power_sgd_residual_of_a_full_world", "power_sgd_keeps_what_is_not_finite",
                     "power_sgd_keeps_factors_of_zeros",   "power_sgd_sends_more_columns_than_rows",
                     "power_sgd_averages_one_pass_less"},
      .draws = 60,
      .start = {.world = {.size = 2}, .hook = {.kind = HookKind::power_sgd}},
      .every = every_approximating,
      .cases = approximating(),
      .precondition = why_no_reference,
      .program = program,
      .checks = {ranks_hold_the_same_bits, it_begins_as_asked, the_others_are_averages,
                 nothing_is_lost, what_is_applied_is_a_projection, something_is_applied,
                 its_rank_is_as_asked, it_finds_the_best, another_seed_draws_other_numbers,
                 a_loaded_hook_continues, it_counts_what_it_sends, the_log_names_the_hook},
      .labels =
          {{"three ranks and more", 0.4, has_three_ranks<Hooked>},
           {"an approximated gradient", 0.45, has_approximated},
           {"error feedback over steps", 0.2,
            [](const Hooked& c) {
              return has_approximated(c) && c.hook.use_error_feedback && c.steps > c.hook.start + 1;
            }},
           {"an approximated gradient of three axes", 0.1,
            [](const Hooked& c) {
              for (size_t p = 0; p < parameter_count(c); ++p)
                if (approximates(c, p) && c.steps > c.hook.start && has_several_axes(size_of(c, p)))
                  return true;
              return false;
            }},
           {"ranks of two and more", 0.25,
            [](const Hooked& c) { return has_approximated(c) && c.hook.matrix_rank > 1; }},
           {"a hook that is saved and loaded", 0.1, [](const Hooked& c) { return c.reload > 0; }},
           {"a loaded hook beside one that is never loaded", 0.01, has_one_to_compare},
           {"ranks without inputs", 0.1, has_uneven_inputs},
           {"a divisor of those that have inputs", 0.04,
            [](const Hooked& c) { return has_uneven_inputs(c) && c.divisor == JoinKind::live; }},
           {"a rate under which a matrix is not approximated", 0.08,
            [](const Hooked& c) {
              auto at_one = c;
              at_one.hook.compression_log2 = 0;
              for (size_t p = 0; p < parameter_count(c); ++p)
                if (!approximates(c, p) && approximates(at_one, p)) return true;
              return false;
            }},
           {"a matrix that is approximated whole", 0.03,
            [](const Hooked& c) {
              for (size_t p = 0; p < parameter_count(c); ++p)
                if (approximates(c, p) &&
                    c.hook.matrix_rank > std::min(size_of(c, p).rows, size_of(c, p).columns))
                  return steps_of(c) > c.hook.start;
              return false;
            }},
           {"a pass of zeros or infinities before the first", 0.05, has_first_pass},
           {"two random seeds", 0.1,
            [](const Hooked& c) { return has_another_seed(c) && has_approximated(c); }},
           {"fed warm", 0.3, [](const Hooked& c) { return c.hook.warm_start; }}},
      .unused = {"hook.chunk"},
  });
}

}  // namespace lockstep::scenarios::hooks_power_sgd_conserves
