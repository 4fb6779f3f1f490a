// Judges whether all ranks issue the same collectives in the same order.
#include "harness/base/text.h"
#include "harness/invariants/data/uneven_batches.h"
#include "harness/invariants/endings.h"
#include "harness/invariants/habits/not_data_parallel.h"
#include "harness/invariants/unwrapped.h"
#include "harness/recorded/divided.h"
#include "harness/verdict/ladders.h"
#include "harness/verdict/trace.h"

#include <algorithm>
#include <map>
#include <set>

namespace lockstep::recorded {

namespace {

struct Missing {
  std::string text;
  std::set<int> ranks;
  std::string group;
  int64_t sequence = 0;
};

std::optional<Missing> first_missing(const History& history) {
  for (const auto& [group, ladder] : ladders(history)) {
    const auto members = members_of(group, ladder, history.size());
    for (const auto& [sequence, rung] : ladder) {
      Missing missing;
      for (const int rank : members)
        if (!rung.contains(rank)) missing.ranks.insert(rank);
      if (missing.ranks.empty()) continue;
      missing.group = group;
      missing.sequence = sequence;
      const std::vector<int> ranks(missing.ranks.begin(), missing.ranks.end());
      missing.text = ranks_text(ranks) + " never issued " + lockstep::place_of(sequence, group) +
                     ", " + text_of(rung.begin()->second) + ", which rank " +
                     std::to_string(rung.begin()->first) + " issued";
      return missing;
    }
  }
  return {};
}

// Two ranks of which each waits in a collective that the other never issued: their orders differ,
// whichever of them gave up first.
std::optional<std::string> crossed_waits(const History& history) {
  std::map<std::pair<int, int>, std::string> waits;  // of a rank for another one
  for (const auto& [group, ladder] : ladders(history)) {
    const auto members = members_of(group, ladder, history.size());
    std::set<int> seen;  // ranks whose first unfinished collective of the group was looked at
    for (const auto& [sequence, rung] : ladder)
      for (const auto& [rank, collective] : rung) {
        if (collective.done || !seen.insert(rank).second) continue;
        for (const int other : members)
          if (!rung.contains(other))
            waits.try_emplace({rank, other},
                              lockstep::place_of(sequence, group) + ", " + text_of(collective));
      }
  }
  for (const auto& [ranks, place] : waits) {
    const auto [rank, other] = ranks;
    const auto back = waits.find({other, rank});
    if (back == waits.end()) continue;
    const auto waiting = [](int who, const std::string& where, int without) {
      return "rank " + std::to_string(who) + " waited in " + where + ", which rank " +
             std::to_string(without) + " never issued";
    };
    return waiting(rank, place, other) + "; " + waiting(other, back->second, rank);
  }
  return {};
}

// True where every rank was stopped from outside, some perhaps a moment before they would have
// issued what a peer had.
bool all_were_stopped(const RecordedRun& run) {
  return std::all_of(run.ranks.begin(), run.ranks.end(), [](const Rank& rank) {
    return rank.history.ending.kind == Ending::Kind::cut_off;
  });
}

// True where a rank lacks later collectives because it ended on its own account, as the first
// invariant says, or gave up waiting for one that did.
bool is_explained(const RecordedRun& run, const Missing& missing) {
  const bool any_ended = !all_were_stopped(run);
  const auto ended_by_itself = [&](const Rank& rank) {
    using Kind = Ending::Kind;
    const auto kind = rank.history.ending.kind;
    return !rank.is_there || (ended_badly(rank) && !gave_up_waiting(rank)) ||
           kind == Kind::overflowed || (kind == Kind::cut_off && any_ended);
  };
  const bool any_did = std::any_of(run.ranks.begin(), run.ranks.end(), ended_by_itself);
  return std::any_of(missing.ranks.begin(), missing.ranks.end(), [&](int number) {
    const auto& rank = run.ranks[static_cast<size_t>(number)];
    return ended_by_itself(rank) || (any_did && gave_up_waiting(rank));
  });
}

// When the first rank in the order of steps issued the collective of a group with this number.
std::optional<Moment> issued_at(const RecordedRun& run, const std::string& group,
                                int64_t sequence) {
  std::optional<Moment> first;
  for (const auto& rank : run.ranks)
    for (const auto& event : rank.history.events)
      if (const auto* is = std::get_if<Collective>(&event.what);
          is && is->group == group && is->sequence == sequence && !is_point_to_point(is->op) &&
          (!first || comes_before(event.at, *first)))
        first = event.at;
  return first;
}

// True if a rank continued without the collective to a later step than that in which others issued
// it: it did not come later to where they were. Ranks without a wrapper may update unlike often.
bool is_passed(const RecordedRun& run, const Missing& missing) {
  const auto at = issued_at(run, missing.group, missing.sequence);
  return at &&
         std::all_of(run.ranks.begin(), run.ranks.end(),
                     [](const Rank& rank) { return wraps_a_model(rank); }) &&
         std::any_of(missing.ranks.begin(), missing.ranks.end(), [&](int rank) {
           return run.ranks[static_cast<size_t>(rank)].history.last.step > at->step;
         });
}

// The first rung of which some rank lacks the collective, or issued another one.
std::optional<Moment> first_unlike(const RecordedRun& run, const History& history) {
  std::optional<Moment> first;
  for (const auto& [group, ladder] : ladders(history)) {
    const auto members = members_of(group, ladder, history.size());
    for (const auto& [sequence, rung] : ladder) {
      if (rung.size() == members.size() && !mismatch_at(group, sequence, rung)) continue;
      const auto at = issued_at(run, group, sequence);
      if (at && (!first || comes_before(*at, *first))) first = at;
      break;
    }
  }
  return first;
}

// A gather between forwards and backwards whose result has no gradient, though what was sent has
// one.
Findings gathered_without_gradient(const Rank& rank) {
  std::map<std::string, std::set<int>> steps;  // by place in the program
  for (const auto& record : rank.records)
    if (const auto* fact = fact_in(record, fact::kCall);
        fact && fact->truth("cuts") && record.at.phase == phase::kForward)
      steps[fact->text("at")].insert(record.at.step);
  for (const auto& [at, in] : steps)
    if (in.size() > 1)
      return {
          {"", "gathered_without_gradient", at,
           "what all_gather returns at " + at + ", in " + counted(in.size(), "step") +
               ", has no gradient, though what each rank sends has one: a loss of gathered "
               "features trains each rank by its own part alone, and its gradients are too small; "
               "torch.distributed.nn.functional.all_gather has one"}};
  return {};
}

}  // namespace

Judgement collectives_have_one_order(const RecordedRun& run) {
  const auto history = run.history();
  size_t count = 0;
  for (const auto& rank : run.ranks) count = std::max(count, issued_by(rank));
  Judgement judgement{.compared = counted(count, "collective"),
                      .remarks = gathered_without_gradient(run.ranks.front())};
  if (run.ranks.size() == 1) return {.why_not = "one rank alone"};
  if (count == 0) {
    if (const auto* why = not_data_parallel(run)) return not_covered(why);
    if (!shards_of(run.ranks.front()).empty())
      return not_covered("what divides the parameters communicates unseen");
    if (!all_returned(run)) return {.why_not = "no rank issued a collective before it ended"};
    if (std::any_of(run.ranks.begin(), run.ranks.end(),
                    [](const Rank& rank) { return !shards_of(rank).empty(); }))
      return {.why_not =
                  "ranks that hold parts of a model issue collectives that are not recorded"};
    if (averages_unseen(run)) return not_covered("what averages the gradients communicates unseen");
    judgement.findings.push_back(
        {"", "no_collective", "", "no rank issued a collective: each trains alone"});
    return judgement;
  }
  std::string text, pattern;
  if (const auto mismatch = first_mismatch(history)) {
    text = *mismatch;
    pattern = kMismatched;
  } else if (const auto crossed = crossed_waits(history)) {
    text = *crossed;
    pattern = kMismatched;
  } else if (const auto missing = first_missing(history); missing && !is_explained(run, *missing)) {
    text = missing->text;
    pattern = "missing_collective";
    judgement.is_certain = !all_were_stopped(run) || is_passed(run, *missing);
  }
  const bool is_in_all = std::all_of(run.ranks.begin(), run.ranks.end(),
                                     [](const Rank& rank) { return issued_by(rank) > 0; });
  if (text.empty() && !is_in_all) return {.why_not = "not every rank recorded a collective"};
  if (text.empty()) return judgement;
  auto details = uneven_batches(run);
  details += ladder(history);
  details += wavefront(history);
  details += how_ranks_ended(run);
  judgement.findings.push_back({"", pattern, "", text, std::move(details)});
  judgement.at = first_unlike(run, history);
  return judgement;
}

}  // namespace lockstep::recorded
