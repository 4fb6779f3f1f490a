#include "harness/campaign/shrink_failure.h"

#include "harness/campaign/larger_worlds.h"
#include "harness/cases/draw.h"
#include "harness/cases/explain.h"
#include "harness/cases/shown_fields.h"
#include "harness/cases/shrink.h"

#include <algorithm>
#include <cmath>

namespace lockstep {

namespace {

// The share of time and runs for shrinking. The rest is for explaining.
constexpr double kShareOfShrinking = 0.7;

constexpr uint64_t kOtherSeeds = 5, kLargerWorlds = 2;

std::chrono::milliseconds passed(TrialTime from, TrialTime to) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(to - from);
}

class InSetting : public Trials {
 public:
  InSetting(const Scenario& scenario, TrialRunner& runner, Goal goal, Setting setting)
      : scenario_(scenario),
        runner_(runner),
        goal_(std::move(goal)),
        setting_(std::move(setting)) {}

  // True if what `c` showed explains more than the goal, which it is from now on.
  bool narrows_to(const Case& c) {
    const auto shown = runner_.shown(c, setting_);
    if (!shown || shown->signature() == goal_.failure.signature()) return false;
    goal_.failure = *shown;
    return true;
  }

  std::vector<std::optional<Outcome>> run(const std::vector<Case>& cases, Outcome wanted,
                                          TrialTime until) override {
    auto outcomes = runner_.run(goal_, setting_, cases, wanted, until);
    if (wanted != Outcome::shows) return outcomes;
    const auto shows = std::find(outcomes.begin(), outcomes.end(), Outcome::shows);
    const auto index = shows - outcomes.begin();
    if (shows == outcomes.end() || !fits_by_chance(cases[static_cast<size_t>(index)], until))
      return outcomes;
    *shows = Outcome::other;
    const auto rest = run({cases.begin() + index + 1, cases.end()}, wanted, until);
    std::copy(rest.begin(), rest.end(), shows + 1);
    return outcomes;
  }

  const Setting& setting() const { return setting_; }

 private:
  // True if `c` shows what explains more than the goal, and the same case with other seeds most
  // often does not: of few numbers that are small many patterns hold.
  bool fits_by_chance(const Case& c, TrialTime until) {
    const auto shown = runner_.shown(c, setting_);
    if (!shown || shown->signature() == goal_.failure.signature()) return false;
    const auto others = with_more(scenario_, c, "seed", Leaf::Type::seed, kOtherSeeds);
    auto goal = goal_;
    goal.failure = *shown;
    int alike = 0, otherwise = 0;
    for (const auto& other : others) {
      const auto outcome = runner_.run(goal, setting_, {other}, Outcome::shows, until).front();
      alike += outcome == Outcome::shows;
      otherwise += outcome == Outcome::other;
    }
    return !others.empty() && alike < std::max(2, 2 * otherwise);
  }

  const Scenario& scenario_;
  TrialRunner& runner_;
  Goal goal_;
  const Setting setting_;
};

class FailureShrinker {
 public:
  FailureShrinker(const Scenario& scenario, const FoundFailure& found, const ShrinkOptions& options,
                  TrialRunner& runner)
      : scenario_(scenario),
        found_(found),
        options_(options),
        runner_(runner),
        began_(runner.now()),
        origin_(found.origin.value_or(Origin{.drawn = found.c.value})),
        goal_{.failure = found.verdict} {}

  std::optional<SmallestFailure> run(const SmallestFailure* known) {
    if (found_.is_flaky && !measure()) return {};
    if (known)
      if (auto same = taken_over(*known)) return same;
    shrink_where_cheapest();
    return finished();
  }

 private:
  TrialTime until(double share) const {
    return began_ + std::chrono::duration_cast<std::chrono::milliseconds>(options_.time * share);
  }

  int64_t runs_until(double share) const {
    return static_cast<int64_t>(static_cast<double>(options_.runs) * share);
  }

  // Whatever time it is: without it nothing else counts.
  bool shows(const Case& c, const Setting& setting) {
    return runner_.run(goal_, setting, {c}, Outcome::shows, TrialTime::max()).front() ==
           Outcome::shows;
  }

  bool measure() {
    rate_ = rate_of(found_.c);
    goal_.runs = kFlakyRuns;
    goal_.failures = std::max(1, (rate_ + 1) / 2);
    return rate_ > 0;
  }

  // How often the case fails.
  int rate_of(const Case& c) {
    int failed = 0;
    const Goal once{.failure = goal_.failure};
    for (int i = 0; i < kFlakyRuns; ++i)
      failed += runner_.run(once, found_.setting, {c}, Outcome::shows, TrialTime::max()).front() ==
                Outcome::shows;
    return failed;
  }

  std::optional<SmallestFailure> taken_over(const SmallestFailure& known) {
    if (known.c == found_.c) return SmallestFailure{found_.c, found_.verdict, {}, known.shrunk};
    if (!shows(known.c, found_.setting)) return {};
    auto story = runner_.tell(known.c, found_.setting);
    if (!story || !shows_failure(story->verdict, goal_.failure)) return {};
    auto& finding = story->verdict.findings.front();
    const auto& known_finding = known.verdict.findings.front();
    if (may_fit_one_size_by_chance(finding) && known_finding.pattern.empty())
      finding = known_finding;  // Larger worlds contradict it.
    return SmallestFailure{known.c, std::move(story->verdict), std::move(story->evidence),
                           known.shrunk};
  }

  void shrink_where_cheapest() {
    path_ = {found_.c};
    if (options_.cheaper)
      for (const auto& setting : options_.cheaper(found_.setting))
        if (shows(found_.c, setting)) {
          shrink_in(setting);
          if (is_confirmed()) return;
          break;
        }
    shrink_in(found_.setting);
  }

  void shrink_in(const Setting& setting) {
    trials_.emplace(scenario_, runner_, goal_, setting);
    trials_->narrows_to(path_.back());
    runs_before_ = runs();
    search_.emplace(*trials_);
    search_->allow(until(kShareOfShrinking), runs_until(kShareOfShrinking) - runs_before_);
    const int before = origin_.steps + static_cast<int>(path_.size()) - 1;
    const bool keeps = setting == found_.setting;
    auto descent =
        lockstep::shrink(scenario_, path_.back(), *search_, [&](const Case& c, int steps) {
          if (trials_->narrows_to(c)) search_->narrow();
          if (keeps) runner_.keep(c, {origin_.drawn, before + steps, false});
        });
    path_.insert(path_.end(), descent.path.begin() + 1, descent.path.end());
    is_smallest_ = descent.is_smallest;
  }

  // Cuts the path behind its last case that fails where the failure was found, as far as halving
  // finds it; true if that is the smallest one.
  bool is_confirmed() {
    size_t fails = 0, passes = path_.size();
    for (size_t at = path_.size() - 1; passes - fails > 1; at = fails + (passes - fails) / 2)
      (shows(path_[at], found_.setting) ? fails : passes) = at;
    const bool all = fails + 1 == path_.size();
    path_.resize(fails + 1);
    is_smallest_ = is_smallest_ && all;
    if (fails > 0) runner_.keep(path_.back(), {origin_.drawn, steps(), is_smallest_});
    return all;
  }

  std::optional<SmallestFailure> finished() {
    SmallestFailure out{.c = path_.back(), .verdict = found_.verdict, .evidence = {}, .shrunk = {}};
    if (path_.size() > 1) {
      if (auto story = tell()) {
        out.verdict = std::move(story->verdict);
        out.evidence = std::move(story->evidence);
      } else if (auto verdict = runner_.shown(out.c, found_.setting);
                 verdict && runner_.interrupted()) {
        out.verdict = std::move(*verdict);
        out.evidence = Evidence{};
      } else {
        out.c = found_.c;
        path_.resize(1);
      }
    }
    auto& shrunk = out.shrunk;
    shrunk.end = end();
    if (!runner_.interrupted()) {
      search_->allow(until(1), options_.runs - runs_before_);
      doubt_what_one_size_shows(out);
      shrunk.notes = explain(scenario_, out.c, *search_);
    }
    if (found_.is_flaky && !runner_.interrupted()) {
      shrunk.failed = rate_of(out.c);
      shrunk.smallest_runs = kFlakyRuns;
    }
    shrunk.drawn = origin_.drawn;
    shrunk.steps = steps();
    shrunk.runs = runs();
    shrunk.tier = trials_->setting().tier;
    shrunk.took = passed(began_, runner_.now());
    return out;
  }

  void doubt_what_one_size_shows(SmallestFailure& out) {
    auto& finding = out.verdict.findings.front();
    if (!may_fit_one_size_by_chance(finding)) return;
    const auto larger = with_more(scenario_, out.c, "world.size", Leaf::Type::whole, kLargerWorlds);
    if (search_->first(larger, Outcome::shows)) return;
    for (const auto& c : larger) {
      if (search_->outcome(c) != Outcome::other) continue;
      const auto there = runner_.tell(c, trials_->setting());
      if (there && contradict(finding, there->verdict, world_size(c))) return;
    }
  }

  // The smallest case is run where the failure was found; a flaky one until it fails.
  std::optional<TrialRunner::Story> tell() {
    for (int i = 0; i < (found_.is_flaky ? kFlakyRuns : 1); ++i) {
      auto story = runner_.tell(path_.back(), found_.setting);
      if (!story) return {};
      if (shows_failure(story->verdict, goal_.failure)) return story;
    }
    return {};
  }

  Shrunk::End end() const {
    if (runner_.interrupted()) return Shrunk::End::interrupted;
    if (is_smallest_) return Shrunk::End::smallest;
    return search_->ended() == Search::End::runs ? Shrunk::End::runs : Shrunk::End::time;
  }

  int steps() const { return origin_.steps + static_cast<int>(path_.size()) - 1; }
  int64_t runs() const { return runs_before_ + (search_ ? search_->runs() : 0); }

  const Scenario& scenario_;
  const FoundFailure& found_;
  const ShrinkOptions& options_;
  TrialRunner& runner_;
  const TrialTime began_;
  const Origin origin_;
  Goal goal_;
  int rate_ = 0;
  std::vector<Case> path_;  // from the case that was found
  bool is_smallest_ = false;
  std::optional<InSetting> trials_;
  std::optional<Search> search_;
  int64_t runs_before_ = 0;  // of an earlier search
};

}  // namespace

std::optional<SmallestFailure> shrink_failure(const Scenario& scenario, const FoundFailure& found,
                                              const SmallestFailure* known,
                                              const ShrinkOptions& options, TrialRunner& runner) {
  auto smallest = FailureShrinker(scenario, found, options, runner).run(known);
  if (smallest)
    smallest->shrunk.drawn_unlike_default = unlike_default(scenario, smallest->shrunk.drawn);
  return smallest;
}

}  // namespace lockstep
