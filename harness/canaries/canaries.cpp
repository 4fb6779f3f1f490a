#include "harness/canaries/canaries.h"

#include "harness/canaries/judged.h"
#include "harness/cases/draw.h"

namespace lockstep {

using namespace canaries;

Canary canary_of_any_world(const Setting& setting, int world_size) {
  const auto scenario = records_nothing();
  auto c = scenario.smallest();
  c.value["world"]["size"] = world_size;
  return {"emptiness", {scenario, setting, std::vector{c}}, "fail vacuous"};
}

std::vector<Canary> canaries_of_simulated_worlds(const std::string& subject) {
  const Setting setting{.subject = subject, .tier = kSim.name, .backend = kSim.own_backend};
  const auto of = [&](const std::string& judgement, const Scenario& scenario,
                      const std::string& outcome, const Json& smallest = {}) {
    return Canary{
        judgement, {scenario, setting, std::vector{scenario.smallest()}}, outcome, smallest};
  };
  std::vector<Canary> all{
      of("values", records_a_sum(), "fail sum_not_average"),
      of("agreement", disagrees(), "fail no_two_ranks_agree"),
      of("matching collectives", issues_another(), "crash mismatched_collectives"),
      of("collectives that return", returns_from_another(), "fail mismatched_collectives"),
      of("left behind", leaves_behind(), "leak left_behind"),
      of("endings", throws_on_one(), "crash threw"),
      of("deadlines", waits_forever(), "hang stuck"),
      of("injections", is_corrupted(), "fail only_rank_zero_right"),
      of("idle injections", is_never_struck(), "inconclusive did_not_strike"),
      of("refusals of one rank", is_refused_by_one(), "fail refused_by_some"),
      of("refusals of all ranks", is_refused_by_all(), "skip refused"),
      of("preconditions", is_beyond_its_claim(), "skip refused"),
      of("tap", issues_a_collective(), "fail allreduce of 3 float32 in world, done"),
      of("shrinking", fails_from_three(), "fail", {{"elements", 3}}),
      of("replay", records_the_time(), "fail not_repeatable"),
  };
  // A run of another subject requires no shares.
  if (subject == Setting().subject) {
    const auto scenario = has_no_such_label();
    all.push_back({"labels",
                   {.scenario = scenario,
                    .setting = setting,
                    .cases = draw_cases(scenario, {.seed = 1}),
                    .judges_shares = true},
                   "fail label_missed"});
  }
  return all;
}

}  // namespace lockstep
