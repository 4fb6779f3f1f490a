// Judges whether all ranks hold the same parameters.
#include "harness/base/text.h"
#include "harness/invariants/at_wrapping.h"
#include "harness/invariants/habits/ends_by_hand.h"
#include "harness/invariants/habits/evaluated_parameters.h"
#include "harness/invariants/habits/loaded_copies.h"
#include "harness/invariants/habits/not_data_parallel.h"
#include "harness/invariants/habits/own_parts.h"
#include "harness/invariants/habits/scaled_averages.h"
#include "harness/invariants/habits/updates_by_hand.h"
#include "harness/invariants/local_updates.h"
#include "harness/invariants/taken_gradients.h"
#include "harness/invariants/unwrapped.h"

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <utility>

namespace lockstep::recorded {

namespace {

// A rank that came to the row's moment would have recorded parameters that changed there.
bool came_to(const Rank& rank, const Moment& at) {
  return rank.history.last.step > at.step;
}

// Parameters change in a forward where a program loads, swaps or moves them. A rank records them
// then, and else has those that it recorded last.
class Replicas {
 public:
  Replicas(const RecordedRun& run, std::string_view role)
      : run_(run),
        is_frozen_(role == role::kFrozen),
        what_(is_frozen_ ? "frozen parameters of " : "parameters of "),
        updates_centrally_(updates_centrally(run)),
        rows_(without_unknown_order(run, rows_of(run, role))),
        averaged_(averaged_between_updates(run)),
        lost_(run) {}

  Judgement judgement() {
    Judgement judgement;
    for (size_t at = 0; at < rows_.size() && judgement.findings.empty(); ++at) judge(at, judgement);
    if (auto lost = lost_.finding(); lost && judgement.findings.empty()) {
      judgement.add(Found{std::move(*lost), lost_.at()});
    }
    judgement.compared = counted(compared_, "time");
    return judgement;
  }

  bool any_divided() const { return std::ranges::any_of(rows_, &Row::is_divided); }
  bool none_compared() const { return compared_ == 0; }

 private:
  Finding remark(const char* pattern, const Row& row, const std::string& text) const {
    return {"", pattern, place_of(row), what_ + row.of + text};
  }

  void judge(size_t at, Judgement& judgement) {
    const auto& row = rows_[at];
    auto& last = last_[row.of];
    const auto before = last;
    keep_latest(row, last);
    compared_ += row.is_whole() && has_comparison(row) ? 1 : 0;
    auto finding = row.at.phase == phase::kForward || is_frozen_
                       ? difference_in_forward(row, before, last)
                       : difference_in(row, what_ + row.of);
    if (!finding) return;
    const auto forward = row.at.phase == phase::kUpdate ? forward_after(at) : std::nullopt;
    if (forward && row.is_whole() && !difference_in(*forward, ""))
      lost_.look(row, before, *forward);
    if (const auto found = averaged_.find(row.of);
        found != averaged_.end() && row.at.phase == phase::kUpdate) {
      if (found->second == row.at && !std::exchange(is_said_to_average_, true))
        judgement.remarks.push_back(
            remark("averaged_between_updates", row,
                   " differ between the ranks after updates, and the program averages them in "
                   "between, as local SGD does: not compared after updates"));
      return;
    }
    if (forward ? !difference_in(*forward, "") : put_right_.contains(row.of) && is_last(at)) {
      if (put_right_.insert(row.of).second)
        judgement.remarks.push_back(
            remark("equal_before_the_forward", row,
                   " differ between the ranks after updates, and a collective of the program makes "
                   "them the same before the next forward, as where each rank updates a part of "
                   "them: compared in that forward"));
      return;
    }
    if (forward && differing_in(*forward) < differing_in(row)) {
      sent_in_part_.insert(row.of);
      return;
    }
    if (averaged_.contains(row.of) && is_averaged_soon(rows_, at) && averaged_in_groups(run_, row))
      return;
    if (changes_itself(at, judgement) || is_of_one_rank_at_the_end(at)) return;
    if (auto own = each_ranks_own(row, last)) {
      if (began_unlike_.insert(row.of).second) judgement.remarks.push_back(std::move(*own));
      return;
    }
    if (row.at.phase == phase::kForward && is_back_after(at)) {
      if (judgement.remarks.empty())
        judgement.remarks.push_back(
            remark("back_at_the_update", row,
                   " differed between the ranks in a forward, and no longer after the update: "
                   "they were swapped or moved for that forward alone"));
      return;
    }
    if (is_copy(row.of)) {
      if (finding->pattern == "other_shape") return;  // the ranks have models of their own
      if (const auto kind = made_by_each(run_, row.of)) {
        if (!kind->empty() && began_unlike_.insert(row.of).second)
          judgement.remarks.push_back(
              remark("made_on_each_rank", row,
                     ", a " + *kind +
                         " that no wrapper and no optimizer has, differ between the ranks, and no "
                         "collective made them the same: each rank made its own. Where a loss uses "
                         "it, as it does a teacher, ranks train on losses of their own: seed it "
                         "alike, load it on all ranks, or broadcast it"));
        return;
      }
      if ((is_first(at) && !is_last(at)) || began_unlike_.contains(row.of)) {
        if (began_unlike_.insert(row.of).second)
          judgement.remarks.push_back(
              remark("began_unlike", row,
                     " began unlike on the ranks, and follow the model since, as an average of "
                     "weights that each rank copies before the model is wrapped: not compared"));
        return;
      }
      finding->diagnosis +=
          ": a model that the program copied, or loaded values into, and that no wrapper keeps the "
          "same, a teacher or an average of weights say";
    } else if (finding->pattern != "other_shape") {
      finding->details += unknown_to_the_wrapper(run_, row);
      if (!is_frozen_) add_how_gradients_parted(run_, row, *finding);
    }
    if (row.at.phase == phase::kConstruction) finding->details += unsent_parts(run_);
    if (updates_centrally_ || sent_in_part_.contains(row.of))
      finding->details.push_back(
          Cause{"ranks update on their own, and the program sends them what others updated, but "
                "not all of it"});
    judgement.add(Found{std::move(*finding), row.at});
  }

  // True if the program updates these itself, and makes them the same later, as local SGD does.
  bool changes_itself(size_t at, Judgement& judgement) {
    const auto& row = rows_[at];
    if (row.of != kNoOptimizer) return false;
    const bool is_put_right = is_the_same_later(rows_, at) || end_alike_by_hand(run_);
    if (is_put_right && put_right_.insert(row.of).second)
      judgement.remarks.push_back(
          remark("averaged_between_updates", row,
                 " differ between the ranks after updates of the program, and are the same later, "
                 "as in local SGD: not compared in between"));
    return is_put_right;
  }

  // A remark of parameters beside a model that each rank has of its own.
  std::optional<Finding> each_ranks_own(const Row& row, const std::vector<const Digests*>& last) {
    if (is_frozen_) return parts_that_the_wrapper_ignores(run_, row);
    const auto all = are_by_hand_beside(row, rows_) ? filled(row, last) : std::nullopt;
    return all && all->is_whole() ? began_unlike(run_, *all) : std::nullopt;
  }

  // True if ranks alone changed parameters behind the last update, to save or export them say.
  bool is_of_one_rank_at_the_end(size_t at) const {
    const auto& row = rows_[at];
    return is_last(at) && row.at.phase == phase::kForward && is_optimizer(row.of) &&
           (!row.is_whole() || averaged_.contains(row.of));
  }

  // The row with the last record of each rank that has none there; nothing where one did not come
  // so far.
  std::optional<Row> filled(const Row& row, const std::vector<const Digests*>& last) const {
    Row all = row;
    for (size_t rank = 0; rank < last.size(); ++rank) {
      if (!row.by_rank[rank] && !came_to(run_.ranks[rank], row.at)) return {};
      if (!row.by_rank[rank]) all.by_rank[rank] = last[rank];
    }
    return all;
  }

  // The forward after an update, with its parameters, where some rank has other ones by then.
  std::optional<Row> forward_after(size_t at) const {
    for (size_t next = at + 1; next < rows_.size(); ++next)
      if (rows_[next].of == rows_[at].of)
        return rows_[next].at.phase == phase::kForward ? filled(rows_[next], last_.at(rows_[at].of))
                                                       : std::nullopt;
    return {};
  }

  bool is_last(size_t at) const { return is_none_of_it(std::span(rows_).subspan(at + 1), at); }
  bool is_first(size_t at) const { return is_none_of_it(std::span(rows_).first(at), at); }
  bool is_none_of_it(std::span<const Row> rows, size_t at) const {
    return std::ranges::none_of(rows, [&](const Row& row) { return row.of == rows_[at].of; });
  }

  std::optional<Finding> difference_in_forward(const Row& row, std::vector<const Digests*> before,
                                               const std::vector<const Digests*>& now) {
    before.resize(now.size(), nullptr);
    const auto all = filled(row, now);
    if (!all) return {};
    auto finding = difference_in(*all, what_ + row.of);
    if (!finding || row.is_divided()) return finding;
    std::vector<std::string> texts;
    for (size_t rank = 0; rank < now.size(); ++rank)
      texts.push_back(now[rank] && before[rank] && !hold_the_same(now[rank], before[rank])
                          ? "other values than it had"
                          : "the values that it had");
    if (all_alike(texts) || updates_centrally_) return finding;
    finding->pattern = "changed_on_some_ranks";
    finding->diagnosis =
        what_ + row.of + " changed outside an update on some ranks alone: " + values_text(texts);
    return finding;
  }

  // True if the next update leaves the same parameters on all ranks.
  bool is_back_after(size_t at) const {
    for (size_t next = at + 1; next < rows_.size(); ++next)
      if (rows_[next].of == rows_[at].of && rows_[next].at.phase == phase::kUpdate) {
        const auto all = filled(rows_[next], last_.at(rows_[at].of));
        return all && !difference_in(*all, "");
      }
    return false;
  }

  const RecordedRun& run_;
  const bool is_frozen_;
  const std::string what_;        // is compared: "parameters of "
  const bool updates_centrally_;  // by one rank
  const std::vector<Row> rows_;
  const std::map<std::string, Moment> averaged_;
  std::map<std::string, std::vector<const Digests*>> last_;  // by model
  // Models whose ranks differed after an update, and no longer, or in fewer tensors, in the
  // forward.
  std::set<std::string> put_right_, sent_in_part_;
  std::set<std::string> began_unlike_;  // copies that nothing trains
  bool is_said_to_average_ = false;     // of the first that the program averages between updates
  LostUpdates lost_;
  size_t compared_ = 0;
};

// Adds what the ranks hold beside what they train: parameters that require no gradient, and
// averages of weights, where the ranks do not train on their own for a while. The first finding
// stays.
void add_untrained(const RecordedRun& run, Judgement& judgement) {
  for (const auto role : {role::kFrozen, role::kAverage}) {
    if (role == role::kAverage && !averaged_between_updates(run).empty()) continue;
    auto other = Replicas(run, role).judgement();
    judgement.remarks += std::move(other.remarks);
    if (!other.findings.empty())
      take_earlier(judgement, Found{std::move(other.findings.front()), *other.at});
  }
  auto evaluated = evaluated_unlike(run);
  if (evaluated.remark) judgement.remarks.push_back(std::move(*evaluated.remark));
  judgement.add(std::move(evaluated.found));
}

}  // namespace

Judgement parameters_are_the_same(const RecordedRun& run) {
  if (run.ranks.size() == 1) return {.why_not = "one rank alone"};
  if (const auto* why = not_data_parallel(run)) return not_covered(why);
  Replicas replicas(run, role::kParameters);
  auto judgement = replicas.judgement();
  judgement.add(scaled_average(run));
  judgement.add(ended_unlike(run));
  add_untrained(run, judgement);
  judgement.remarks += loaded_at_other_steps(run);
  judgement.remarks += changed_on_some_ranks_alone(run);
  if (!judgement.findings.empty() || !replicas.none_compared()) return judgement;
  if (replicas.any_divided())
    return not_covered(
        "the parameters are divided over the ranks, each part on one; "
        "compare them with one process (--against)");
  judgement.findings.push_back(
      {"", "nothing_compared", "",
       "no parameters of any model or optimizer were recorded on all ranks, so that nothing says "
       "that they are the same: wrap the model in DistributedDataParallel, or let the recorder "
       "watch it"});
  judgement.is_certain = false;
  return judgement;
}

}  // namespace lockstep::recorded
