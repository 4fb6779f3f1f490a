// Judges whether all ranks make the same backwards and updates.
#include "harness/base/text.h"
#include "harness/invariants/data/uneven_batches.h"
#include "harness/invariants/endings.h"
#include "harness/invariants/habits/local_rounds.h"
#include "harness/invariants/habits/not_data_parallel.h"
#include "harness/invariants/unwrapped.h"
#include "harness/recorded/passes.h"
#include "harness/verdict/ladders.h"
#include "harness/verdict/trace.h"

#include <algorithm>
#include <tuple>

namespace lockstep::recorded {

namespace {

// One thing that a rank did between others: a synchronised backward of a model, or an update.
struct Deed {
  std::string what;
  Moment at;
};

// In order. Backwards within no_sync are not among them, since ranks may have unequally many.
std::vector<Deed> deeds_of(const Rank& rank) {
  std::vector<Deed> deeds;
  for (const auto& record : rank.records) {
    const auto* fact = std::get_if<Fact>(&record.what);
    if (!fact) continue;
    if (fact->name == fact::kBackward && fact->text("kind") == "synchronised")
      deeds.push_back({"a backward of " + fact->text("model"), record.at});
    if (is_optimizer(fact->name)) deeds.push_back({"an update by " + fact->name, record.at});
  }
  return deeds;
}

Details skipped_update(const Rank& rank, const Moment& at) {
  for (const auto& record : rank.records)
    if (const auto* fact = fact_in(record, fact::kSkipped); fact && record.at.step == at.step)
      return {Cause{fact->text("by") + " skipped the update of " + fact->text("optimizer") +
                    " on rank " + std::to_string(rank.number)}};
  return {};
}

// The first place at which two ranks did different things, though both went on.
std::optional<Found> first_other_deed(const RecordedRun& run) {
  if (std::any_of(run.ranks.begin(), run.ranks.end(),
                  [](const Rank& rank) { return !rank.joins.empty(); }))
    return {};
  const auto first = deeds_of(run.ranks.front());
  std::optional<Found> found;
  for (size_t number = 1; number < run.ranks.size(); ++number) {
    const auto& other = run.ranks[number];
    const auto deeds = deeds_of(other);
    size_t at = 0;
    while (at < std::min(first.size(), deeds.size()) && first[at].what == deeds[at].what) ++at;
    if (at >= std::min(first.size(), deeds.size())) continue;
    const auto &here = first[at], &there = deeds[at];
    if (found && !comes_before(here.at, found->at)) continue;
    const bool is_skipped =
        here.what.starts_with("an update") != there.what.starts_with("an update");
    const auto place = "step " + std::to_string(here.at.step);
    auto causes = skipped_update(run.ranks.front(), here.at);
    causes += skipped_update(other, here.at);
    if (causes.empty()) causes = uneven_batches(run);
    found = {Finding{"", is_skipped ? "skipped_update" : "other_order", place,
                     "in " + place + " " + rank_text(run.ranks.front()) + " made " + here.what +
                         ", and " + rank_text(other) + " " + there.what +
                         (is_skipped ? " without an update before it" : ""),
                     std::move(causes)},
             here.at};
  }
  return found;
}

// The collectives of the whole world that a rank issued: it may belong to more groups than another.
std::vector<std::string> ops_in_the_world(const Rank& rank) {
  std::vector<std::string> ops;
  for (const auto& event : rank.history.events)
    if (const auto* is = std::get_if<Collective>(&event.what);
        is && is->group == kWorld && !is_point_to_point(is->op))
      ops.push_back(is->op);
  return ops;
}

// The batches of training that a rank got, in passes that came to their end, and its backwards.
struct Used {
  size_t batches = 0, backwards = 0;
  bool any_cut = false;
};

Used used_by(const Rank& rank) {
  Used used;
  for (const auto& [source, passes] : passes_of(rank))
    for (const auto& pass : passes) {
      if (!pass.trains) continue;
      used.batches += pass.batch_count();
      used.any_cut = used.any_cut || !pass.is_exhausted;
    }
  for (const auto& record : rank.records)
    if (const auto* fact = fact_in(record, fact::kBackward)) ++used.backwards;
  return used;
}

// Why a rank that got as many batches as the others stopped before one that waits for it.
Details left_behind(const Rank& stopped, const Rank& waiting) {
  const auto of_stopped = used_by(stopped), of_waiting = used_by(waiting);
  if (of_stopped.batches == 0 || of_stopped.batches != of_waiting.batches || of_stopped.any_cut)
    return {};
  if (of_stopped.backwards < of_stopped.batches && of_stopped.backwards < of_waiting.backwards)
    return {Cause{rank_text(stopped) + " got " + counted(of_stopped.batches, "batch", "batches") +
                  " and made " + counted(of_stopped.backwards, "backward") +
                  ": it leaves out batches by a condition that differs by rank, such as a loss "
                  "that is not finite: decide on all ranks alike"}};
  const bool is_beside_training = of_waiting.backwards == of_stopped.backwards;
  const auto issued = ops_in_the_world(waiting);
  const auto missing = ops_in_the_world(stopped).size();
  if (is_beside_training && missing < issued.size() && issued[missing] == "ddp_buffers")
    return {Cause{rank_text(waiting) +
                  " alone runs a forward through the wrapper beside those of the training, an "
                  "evaluation say, which broadcasts buffers for which the others never come: "
                  "evaluate with ddp.module there, or on all ranks"}};
  return {};
}

}  // namespace

Judgement ranks_make_the_same_steps(const RecordedRun& run) {
  const auto progress = [](const Rank& rank) {
    return std::tuple(updates_of(rank) + rank.shadowed, ops_in_the_world(rank).size());
  };
  if (updates_centrally(run))
    return not_covered("one rank alone updates, and sends its parameters to the others");
  if (updates_in_turns(run)) return not_covered(not_data_parallel(run));
  Judgement judgement{.compared = counted(updates_of(run.ranks.front()), "update")};
  if (auto found = first_other_deed(run)) {
    found->finding.details += how_ranks_ended(run);
    judgement.add(std::move(found));
    return judgement;
  }
  for (const auto& rank : run.ranks) {
    if (rank.history.ending.kind != Ending::Kind::returned) continue;
    for (const auto& other : run.ranks)
      if (progress(rank) < progress(other)) {
        auto details = uneven_batches(run);
        if (details.empty()) details = left_behind(rank, other);
        details += how_ranks_ended(run);
        judgement.add(
            Found{{"", "stopped_early", rank_text(rank),
                   rank_text(rank) + " returned after " + counted(updates_of(rank), "update") +
                       ", and " + rank_text(other) + " went on to step " +
                       std::to_string(other.history.last.step) + ", " + other.history.last.phase,
                   std::move(details)},
                  rank.history.last});
        return judgement;
      }
  }
  // One that was killed may have made more than it recorded.
  if (std::any_of(run.ranks.begin(), run.ranks.end(),
                  [](const Rank& rank) { return deeds_of(rank).empty(); }))
    return {.why_not = "not every rank recorded a backward or an update"};
  return judgement;
}

}  // namespace lockstep::recorded
