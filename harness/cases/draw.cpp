#include "harness/cases/draw.h"

#include "harness/base/text.h"
#include "harness/base/values.h"
#include "harness/cases/option_pairs.h"

#include <algorithm>
#include <array>
#include <bit>
#include <mutex>
#include <set>
#include <tuple>

namespace lockstep {

namespace {

constexpr int kSizeMost = 100;        // RapidCheck's own scale
constexpr int kRamp = 4;              // cases have their full size after one in so many
constexpr int kGrowthMost = 1000;     // cases that a list grows by
constexpr int kCandidates = 4;        // draws of which one becomes a case
constexpr int kSwarmCandidates = 12;  // where options should be absent
constexpr int kPicksMost = 1 << 27;   // candidate i of pick p is draw number i * kPicksMost + p
constexpr int kPicksPerCase = 4;      // choices among so many that are spent on finding a new case
constexpr uint64_t kDrawCase = 0;     // what a number drawn from the run's seed is used for
constexpr uint64_t kDrawWorld = 1;
constexpr uint64_t kDrawSchedule = 2;
constexpr uint64_t kDrawLate = 3;
constexpr uint64_t kDrawSwarm = 4;
constexpr uint64_t kDrawLag = 5;
constexpr uint64_t kCasesPerLag = 6;
constexpr int kCollectivesBeforeLag = 24;
constexpr int kLagMs = 101;
constexpr uint64_t kCasesPerLateOne = 4;
constexpr int kLateByMs =
    10;  // a host issues a step's kernels in less, also where ranks share a GPU

// One at a time in the whole program: RapidCheck keeps nested generators on a stack that all
// threads share (rapidcheck/detail/ImplicitParam.hpp), and lanes draw while they run cases.
Case draw_alone(const Scenario& scenario, uint64_t seed, int size) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  return scenario.draw(seed, size);
}

// The cases of a scenario's draws by number: the same number always gives the same case.
class Draws {
 public:
  Draws(Scenario scenario, DrawOptions options)
      : scenario_(std::move(scenario)), options_(std::move(options)) {}

  int wanted() const {
    constexpr int kLeast = 25;
    const int own = scenario_.draws;
    if (own == 0) return 0;
    if (options_.cases) return *options_.cases;
    return options_.a_third ? std::min(own, std::max(own / 3, kLeast)) : own;
  }

  // The part of the case that decides whether it was seen before.
  Case plain(int number) const {
    const int64_t grown = int64_t{kRamp} * (number % kPicksMost) * kSizeMost / wanted();
    const int size = static_cast<int>(std::min<int64_t>(kSizeMost, grown));
    Case c = draw_alone(scenario_, bits(kDrawCase, number), size);
    if (const auto& worlds = options_.worlds; !worlds.empty())
      c = in_world(std::move(c), worlds[bits(kDrawWorld, number) % worlds.size()]);
    return fixed(c);
  }

  // The options that the case of that pick should not have on, a bit each: half of all for every
  // second case, none for the others.
  uint64_t absent_options(int pick) const { return pick % 2 == 0 ? 0 : bits(kDrawSwarm, pick); }

  // Adds how the case runs.
  Case completed(Case c, int number) const {
    if (options_.schedules) c = scheduled(std::move(c), number);
    if (options_.lags) c = with_lag(std::move(c), number);
    if (options_.late_results) c = with_late_results(std::move(c), number);
    return c;
  }

  static Case in_world(Case c, int world) {
    c.value["world"]["size"] = world;
    return c;
  }

  Case fixed(const Case& c) const {
    Json value = c.value;
    for (const auto& [path, text] : options_.set) value = with_value(std::move(value), path, text);
    return scenario_.parse(value);
  }

 private:
  uint64_t bits(uint64_t purpose, int number) const {
    return bits_at(
        {.seed = options_.seed,
         .stream = Stream::order,
         .rank = purpose,
         .step = std::stoull(
             hash_of(scenario_.former_name.empty() ? scenario_.name : scenario_.former_name),
             nullptr, 16),
         .index = static_cast<uint64_t>(number)});
  }

  // Independent of the order of a drawn case's own numbers: a run draws the same cases with and
  // without.
  Case scheduled(Case c, int number) const {
    if (const auto world = world_of(c);
        world != WorldSpec{.injections = world.injections, .size = world.size})
      return c;
    const auto drawn = bits(kDrawSchedule, number);
    constexpr std::array kPolicies{SchedulePolicy::listed, SchedulePolicy::uniform,
                                   SchedulePolicy::uniform, SchedulePolicy::priority};
    constexpr std::array kReductions{ReductionShape::flat, ReductionShape::ring,
                                     ReductionShape::tree, ReductionShape::permuted};
    constexpr std::array kResults{ResultTime::at_once, ResultTime::at_wait, ResultTime::drawn};
    auto& world = c.value["world"];
    world["reduction"] = word_of(kReductions[drawn % kReductions.size()]);
    Schedule schedule{.policy = kPolicies[drawn / 4 % kPolicies.size()]};
    schedule.results = kResults[drawn / 64 % kResults.size()];
    if (schedule.policy != SchedulePolicy::listed || schedule.results == ResultTime::drawn)
      schedule.seed = drawn >> 32;
    if (schedule.policy == SchedulePolicy::priority)
      schedule.changes = static_cast<int>(drawn / 16 % 4);
    world["schedule"] = to_json(schedule);
    return fixed(c);
  }

  // Late results of one rank are enough: no rank has the sum before all have contributed.
  Case with_late_results(Case c, int number) const {
    return with_injection(std::move(c), bits(kDrawLate, number), kCasesPerLateOne,
                          {.kind = InjectionKind::late, .collective = 0, .amount = kLateByMs});
  }

  Case with_lag(Case c, int number) const {
    const auto drawn = bits(kDrawLag, number);
    return with_injection(std::move(c), drawn, kCasesPerLag,
                          {.kind = InjectionKind::delay,
                           .collective = static_cast<int>((drawn >> 32) % kCollectivesBeforeLag),
                           .amount = kLagMs});
  }

  // In one case of so many without injections, in a drawn rank.
  Case with_injection(Case c, uint64_t drawn, uint64_t cases, Injection injection) const {
    const auto world = world_of(c);
    if (!world.injections.empty() || drawn % cases != 0) return c;
    injection.rank = static_cast<int>(drawn / cases % static_cast<uint64_t>(world.size));
    c.value["world"]["injections"] = Json::array({to_json(injection)});
    return fixed(c);
  }

  const Scenario scenario_;
  const DrawOptions options_;
};

}  // namespace

class GrowingCases::Drawer {
 public:
  Drawer(const Scenario& scenario, const DrawOptions& options, std::function<void()> on_draw)
      : scenario_(scenario),
        options_(options),
        on_draw_(std::move(on_draw)),
        draws_(std::make_shared<const Draws>(scenario, options)),
        pairs_(scenario) {}

  void add_archived(const std::vector<Case>& archived) {
    for (const auto& c : archived) {
      const Case read = scenario_.parse(c.value);
      const auto& worlds = options_.worlds;
      const bool wanted = worlds.empty() ||
                          std::find(worlds.begin(), worlds.end(), world_size(read)) != worlds.end();
      if (wanted && draws_->fixed(read) == read && archived_.insert(looked_at(read)).second)
        cases_.keep_archived(read);
    }
  }

  void add_exhaustive() {
    for (const auto& c : scenario_.every()) {
      if (options_.worlds.empty()) add_exhaustive(draws_->fixed(c));
      for (const int world : options_.worlds)
        add_exhaustive(draws_->fixed(Draws::in_world(c, world)));
    }
  }

  // No call of `on_draw` comes from here on.
  void hush() { on_draw_ = nullptr; }

  int first_draws() const { return draws_->wanted(); }

  void add_drawn(int wanted) {
    int found = 0;
    for (const int end = pick_ + kPicksPerCase * wanted; found < wanted && pick_ < end; ++pick_) {
      const auto best = best_candidate();
      if (!best) continue;
      ++found;
      seen_.insert(best->hash);
      pairs_.cover(best->values);
      if (archived_.contains(best->hash)) continue;
      const auto c = draws_->completed(best->c, best->number);
      cases_.draw_again(c, best->number, scenario_.labels(c));
    }
  }

  CaseList list() const {
    return cases_.list(
        [draws = draws_](int number) { return draws->completed(draws->plain(number), number); },
        {.covered = pairs_.covered(), .all = pairs_.all()});
  }

 private:
  void add_exhaustive(const Case& c) {
    const auto hash = looked_at(c);
    if (!seen_.insert(hash).second) return;
    pairs_.cover(pairs_.values_of(c));
    if (!archived_.contains(hash)) cases_.keep(c);
  }

  struct Candidate {
    Case c;
    int number;
    std::string hash;
    OptionPairs::Values values;
    bool is_refused;       // it does not meet the precondition of the scenario
    int on_though_absent;  // options
    int64_t gain;

    bool is_better_than(const Candidate& other) const {
      return std::tuple(is_refused, on_though_absent, -gain) <
             std::tuple(other.is_refused, other.on_though_absent, -other.gain);
    }
  };

  // The best of the draws for this pick; none: no case among them is new.
  std::optional<Candidate> best_candidate() {
    const auto absent = draws_->absent_options(pick_);
    std::optional<Candidate> best;
    for (int i = 0; i < (absent == 0 ? kCandidates : kSwarmCandidates); ++i) {
      const int number = i * kPicksMost + pick_;
      auto c = draws_->plain(number);
      auto hash = looked_at(c);
      if (seen_.contains(hash)) continue;
      auto values = pairs_.values_of(c);
      const bool is_refused = !scenario_.unmet_precondition(c).empty();
      const int others = std::popcount(values.on & absent);
      const auto gain = pairs_.gain(values);
      Candidate one{std::move(c), number, std::move(hash), std::move(values), is_refused,
                    others,       gain};
      if (!best || one.is_better_than(*best)) best = std::move(one);
      // No other one can be better, or is likely to be found that is as good.
      if (!best->is_refused && best->on_though_absent == 0 &&
          (absent != 0 || pairs_.covered() == pairs_.all()))
        break;
    }
    return best;
  }

  // The hash of a case that is examined.
  std::string looked_at(const Case& c) const {
    if (on_draw_) on_draw_();
    return hash_of(c);
  }

  const Scenario scenario_;
  const DrawOptions options_;
  std::function<void()> on_draw_;
  const std::shared_ptr<const Draws> draws_;
  std::set<std::string> seen_, archived_;  // hashes
  OptionPairs pairs_;
  CaseListBuilder cases_;
  int pick_ = 0;  // the number of the next choice among draws
};

GrowingCases::GrowingCases(const Scenario& scenario, const DrawOptions& options,
                           const std::vector<Case>& archived, std::function<void()> on_draw)
    : drawer_(std::make_shared<Drawer>(scenario, options, std::move(on_draw))) {
  drawer_->add_archived(archived);
  if (!options.only_archived) {
    drawer_->add_exhaustive();
    drawer_->add_drawn(drawer_->first_draws());
  }
  drawer_->hush();
  list_ = drawer_->list();
}

const CaseList& GrowingCases::grow() {
  if (drawer_->first_draws() == 0) return list_;
  const auto quarter = static_cast<int>(std::min<size_t>(list_.size() / 4, kGrowthMost));
  drawer_->add_drawn(std::clamp(drawer_->first_draws(), quarter, kGrowthMost));
  return list_ = drawer_->list();
}

CaseList draw_cases(const Scenario& scenario, const DrawOptions& options,
                    const std::vector<Case>& archived, std::function<void()> on_draw) {
  return GrowingCases(scenario, options, archived, std::move(on_draw)).list();
}

}  // namespace lockstep
