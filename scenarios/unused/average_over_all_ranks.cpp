// A parameter that only some ranks use gets, on all ranks, the average over all ranks, in which the
// others count as zero; one that no rank uses has no gradient.
//
// The used branches are drawn for each step and rank; with a static graph they are the same in
// every step. Every rank uses branch 0, so that every rank has a backward. Gradients are cleared to
// none before each step, so that an existing gradient was made by this step: this shows a divisor
// that counts only the users, and a zero instead of no gradient.
#include "harness/base/values.h"
#include "harness/cases/generators.h"
#include "scenarios/cases/branches.h"
#include "scenarios/cases/draw.h"
#include "scenarios/cases/expect.h"
#include "scenarios/cases/labels.h"
#include "scenarios/cases/options.h"

#include <torch/torch.h>

#include <algorithm>
#include <variant>

namespace lockstep::scenarios::unused_average_over_all_ranks {
namespace {

constexpr const char* kReduced = "buckets reduced";

class Partial : public Network {
 public:
  using Network::Network;
  std::function<bool(int branch)> uses = nullptr;

 protected:
  at::Tensor passed_on(int branch, const at::Tensor& output) override {
    return uses(branch) ? output : torch::zeros_like(output);
  }
};

void program(const Training& c, RankContext& here) {
  const auto model = std::make_shared<Partial>(c, build_seed(c, here.rank()));
  if (c.network.order_by_rank) model->set_first_branch(here.rank());
  const auto replica = wrap(here, model, c.options);
  for (int step = 0; step < c.steps; ++step) {
    model->uses = [&](int branch) { return is_used(c, step, here.rank(), branch); };
    model->zero_grad(/*set_to_none=*/true);
    here.enter(step, "forward");
    const auto loss = loss_of_part(c, batch_index(c, step, 0), here.rank(), *replica);
    here.enter(step, "backward");
    replica->backward(loss);
    here.enter(step, "after backward");
    record_gradients(here, *model);
    const auto log = replica->log();
    here.record(kReduced,
                log ? std::vector<int64_t>{log->num_buckets_reduced} : std::vector<int64_t>());
  }
}

Findings users_and_others_hold_the_average(const Training& c, const History& h) {
  Findings out;
  const auto steps = expected_steps(c);
  const auto parameters = initial_parameters(c, 0);
  reference::Arithmetic arithmetic(format_of(c));
  for (int s = 0; s < c.steps; ++s) {
    std::vector<Comparison> rows;
    for (size_t p = 0; p < parameters.size(); ++p) {
      const auto& name = parameters[p].name;
      const auto row = h.row({s, "after backward"}, name);
      std::vector<reference::Rounded> parts;
      int users = 0;
      for (int rank = 0; rank < c.world.size; ++rank) {
        const auto& own = steps[static_cast<size_t>(s)].local()[static_cast<size_t>(rank)][p];
        const bool uses = is_used(c, s, rank, branch_of(name));
        parts.push_back(uses ? own : reference::given(at::zeros_like(own.value)));
        users += uses ? 1 : 0;
      }
      if (users == 0) {
        rows.push_back(
            {.row = row, .expected = {recorded(torch::empty({0}, at::kDouble), dtype_of(c))}});
        continue;
      }
      const auto average = arithmetic.average(parts);
      rows.push_back(compared(c, row, average));
      rows.back().explanations = [&c, average, users] {
        const auto by_users = average.value * c.world.size / users;
        return Explanations{recorded_instead(
            {"divided_by_its_users", "the sum divided by the number of ranks that used it"},
            {recorded(by_users, dtype_of(c))})};
      };
    }
    out += equal("What some ranks use must be averaged over all, and what nobody uses left alone",
                 rows);
  }
  return out;
}

// The one in force in the backward of a step.
BucketLayout layout_in(const History& h, int step) {
  BucketLayout layout;
  for (const auto& event : h.ranks().front().events) {
    if (event.at == Moment{step, "after backward"}) break;
    if (const auto* const published = std::get_if<BucketLayout>(&event.what)) layout = *published;
  }
  return layout;
}

// Whether the ranks use the same branches in a step: they compare, and differing sets are sent.
bool all_use_the_same(const Training& c, int step) {
  for (int branch = 0; branch < c.network.branches; ++branch)
    for (int rank = 1; rank < c.world.size; ++rank)
      if (is_used(c, step, rank, branch) != is_used(c, step, 0, branch)) return false;
  return true;
}

bool has_unused_branch(const Training& c, int step) {
  for (int branch = 0; branch < c.network.branches; ++branch)
    if (!is_used(c, step, 0, branch)) return true;
  return false;
}

// The last bucket of a pass always travels. A static graph decides by its first pass.
Findings what_nobody_uses_stays_at_home(const Training& c, const History& h) {
  if (c.options.static_graph) return {};
  std::vector<Comparison> rows;
  for (int s = 0; s < c.steps; ++s) {
    const auto row = h.row({s, "after backward"}, kReduced);
    if (row.by_rank.front().bytes.empty()) return {};  // a subject that keeps no log
    const bool skips = c.options.skip_all_reduce_unused_params && all_use_the_same(c, s);
    const auto is_used_here = [&](const std::string& parameter) {
      return is_used(c, s, 0, branch_of(parameter));
    };
    const auto buckets = layout_in(h, s).buckets;
    int64_t count = 0;
    for (size_t i = 0; i < buckets.size(); ++i)
      count += !skips || i + 1 == buckets.size() ||
               std::ranges::any_of(buckets[i].parameters, is_used_here);
    rows.push_back({.row = row, .expected = {int64_values({count})}});
  }
  return equal(
      "A bucket that no rank uses must stay at home where the options ask for it, and "
      "every other one must travel",
      rows);
}

std::string why_unused_are_refused(const Training& c) {
  return c.options.find_unused_parameters || c.options.static_graph
             ? ""
             : "the case must find unused parameters or have a static graph";
}

std::vector<Training> every_small_one() {
  std::vector<Training> all;
  for (const int world : {2, 3})
    for (const int64_t cap : {0, 1})
      for (const bool is_static : {false, true})
        for (const bool skips : {false, true})
          for (const uint64_t seed : {1u, 2u, 3u})
            all.push_back({.world = {.size = world},
                           .steps = 3,
                           .network = {.branches = 3},
                           .batch_log2 = 2,
                           .options = {.bucket_cap_bytes = cap,
                                       .find_unused_parameters = !is_static,
                                       .static_graph = is_static,
                                       .skip_all_reduce_unused_params = skips},
                           .seed = seed});
  for (const bool is_static : {false, true})
    all.push_back({.world = {.size = 2},
                   .steps = 2,
                   .network = {.hidden = {{}}, .branches = 64},
                   .batch_log2 = 1,
                   .options = {.find_unused_parameters = !is_static, .static_graph = is_static},
                   .seed = 1});
  return all;
}

rc::Gen<Training> cases() {
  // Now and then more parameters than the bits of a word, or of several.
  const auto branches =
      rc::gen::weightedOneOf<int>({{6, rc::gen::inRange(2, 6)}, {1, rc::gen::element(33, 40, 64)}});
  auto drawn = gen::apply(
      [](Training c, int branches, bool is_static, bool skips) {
        c.network.branches = branches;
        c.options.static_graph = is_static;
        c.options.find_unused_parameters = !is_static;
        c.options.skip_all_reduce_unused_params = skips;
        return c;
      },
      trainings(), branches, rc::gen::arbitrary<bool>(), rc::gen::arbitrary<bool>());
  return with(std::move(drawn), &Training::steps, rc::gen::inRange(2, 5));
}

}  // namespace

Scenario are_averaged_over_all_ranks() {
  return scenario<Training>({
      .name = "unused.are_averaged_over_all_ranks",
      .claim = "A parameter that some ranks use gets the average over all ranks, and one that none "
               "uses no gradient.",
      .in_full =
          "A parameter that some ranks use gets the average over all ranks on every rank; one "
          "that no rank uses gets no gradient.",
      .exactness = "bit-equal · real: bounded",
      .source = "find_unused_parameters and static_graph of "
                "torch.nn.parallel.DistributedDataParallel; docs/semantics.md 2.5 and 2.6",
      .not_covered = "gradients that are kept from step to step, outputs left out of the loss",
      .usual_mistake = "dividing by the number of ranks that used the parameter.",
      .tags = {"gradients", "unused"},
      .must_catch = {"unused_buckets_travel_anyway", "unused_gradients_overwritten",
                     "unused_skipped_unasked", "uses_noted_in_128_places",
                     "users_read_from_64_counts"},
      .draws = 90,
      .start = {.world = {.size = 2},
                .network = {.branches = 2},
                .options = {.find_unused_parameters = true}},
      .every = every_small_one,
      .cases = cases(),
      .precondition = why_unused_are_refused,
      .program = program,
      .checks = {users_and_others_hold_the_average, what_nobody_uses_stays_at_home},
      .cause =
          [](const Training& c, std::string_view pattern) {
            return pattern == kMismatched ? cause_of_mismatch(c.options) : "";
          },
      .labels = {{"three ranks and more", 0.3, has_three_ranks<Training>},
                 {"several buckets", 0.3, has_several_buckets},
                 {"66 parameters and more", 0.03,
                  [](const Training& c) { return c.network.branches >= 33; }},
                 {"a static graph", 0.1, [](const Training& c) { return c.options.static_graph; }},
                 {"unused parameters that are skipped and not sent", 0.04,
                  [](const Training& c) {
                    if (!c.options.skip_all_reduce_unused_params || c.options.static_graph)
                      return false;
                    for (int s = 0; s < c.steps; ++s)
                      if (all_use_the_same(c, s) && has_unused_branch(c, s)) return true;
                    return false;
                  }},
                 {"unused parameters that are found", 0.35,
                  [](const Training& c) { return c.options.find_unused_parameters; }},
                 {"unused parameters that are skipped", 0.15,
                  [](const Training& c) { return c.options.skip_all_reduce_unused_params; }}},
      .unused = {"micro_batches", "groups", "optimizer", "learning_rate_log2"},
  });
}

}  // namespace lockstep::scenarios::unused_average_over_all_ranks
