// Judges whether all ranks hold the same parameters.
#include "harness/base/text.h"
#include "harness/invariants/at_wrapping.h"
#include "harness/invariants/local_updates.h"
#include "harness/invariants/own_tensors.h"
#include "harness/invariants/unwrapped.h"

#include <algorithm>
#include <map>
#include <set>

namespace lockstep::recorded {

namespace {

// How many tensors are not the same on all ranks that recorded the row.
size_t differing_in(const Row& row) {
  std::map<std::string, std::set<uint64_t>> bits;  // by tensor
  for (const auto* is : row.by_rank)
    for (size_t tensor = 0; is && tensor < is->values.size(); ++tensor)
      bits[is->list->tensors[tensor].name].insert(is->values[tensor].bits);
  return static_cast<size_t>(std::count_if(
      bits.begin(), bits.end(), [](const auto& each) { return each.second.size() > 1; }));
}

Finding remark(const char* pattern, const Row& row, const std::string& what) {
  return {"", pattern, place_of(row), "parameters of " + row.of + what};
}

// A rank that came to the row's moment would have recorded parameters that changed there.
bool came_to(const Rank& rank, const Moment& at) {
  return rank.history.last.step > at.step;
}

// Parameters change in a forward where a program loads, swaps or moves them. A rank records them
// then, and else has those that it recorded last.
class Replicas {
 public:
  explicit Replicas(const RecordedRun& run)
      : run_(run),
        updates_centrally_(updates_centrally(run)),
        rows_(rows_of(run, "parameters")),
        averaged_(averaged_between_updates(run)) {}

  Judgement judgement() {
    Judgement judgement;
    for (size_t at = 0; at < rows_.size() && judgement.findings.empty(); ++at) judge(at, judgement);
    judgement.compared = counted(compared_, "time");
    return judgement;
  }

  bool any_divided() const {
    return std::any_of(rows_.begin(), rows_.end(), [](const Row& row) { return row.is_divided(); });
  }
  bool none_compared() const { return compared_ == 0; }

 private:
  void judge(size_t at, Judgement& judgement) {
    const auto& row = rows_[at];
    auto& last = last_[row.of];
    const auto before = last;
    last.resize(row.by_rank.size(), nullptr);
    for (size_t rank = 0; rank < row.by_rank.size(); ++rank)
      if (row.by_rank[rank]) last[rank] = row.by_rank[rank];
    compared_ += row.is_whole() && has_comparison(row) ? 1 : 0;
    auto finding = row.at.phase == "forward" ? difference_in_forward(row, before, last)
                                             : difference_in(row, "parameters of " + row.of);
    if (!finding) return;
    if (const auto found = averaged_.find(row.of);
        found != averaged_.end() && row.at.phase == "update") {
      if (found->second == row.at)
        judgement.remarks.push_back(
            remark("averaged_between_updates", row,
                   " differ between the ranks after updates, and the program averages them in "
                   "between, as local SGD does: not compared after updates"));
      return;
    }
    const auto forward = row.at.phase == "update" ? forward_after(at) : std::nullopt;
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
    if (row.at.phase == "forward" && is_back_after(at)) {
      if (judgement.remarks.empty())
        judgement.remarks.push_back(
            remark("back_at_the_update", row,
                   " differed between the ranks in a forward, and no longer after the update: "
                   "they were swapped or moved for that forward alone"));
      return;
    }
    if (finding->pattern != "other_shape") finding->details += unknown_to_the_wrapper(run_, row);
    if (updates_centrally_ || sent_in_part_.contains(row.of))
      finding->details.push_back(
          "cause: ranks update on their own, and the program sends them what others updated, but "
          "not all of it");
    judgement.at = row.at;
    judgement.findings.push_back(std::move(*finding));
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
        return rows_[next].at.phase == "forward" ? filled(rows_[next], last_.at(rows_[at].of))
                                                 : std::nullopt;
    return {};
  }

  bool is_last(size_t at) const {
    return std::none_of(rows_.begin() + static_cast<std::ptrdiff_t>(at) + 1, rows_.end(),
                        [&](const Row& row) { return row.of == rows_[at].of; });
  }

  std::optional<Finding> difference_in_forward(const Row& row, std::vector<const Digests*> before,
                                               const std::vector<const Digests*>& now) {
    before.resize(now.size(), nullptr);
    const auto all = filled(row, now);
    if (!all) return {};
    auto finding = difference_in(*all, "parameters of " + row.of);
    if (!finding || row.is_divided()) return finding;
    std::vector<std::string> texts;
    for (size_t rank = 0; rank < now.size(); ++rank)
      texts.push_back(now[rank] && before[rank] && !same_bits(*now[rank], *before[rank])
                          ? "other values than it had"
                          : "the values that it had");
    if (all_alike(texts) || updates_centrally_) return finding;
    finding->pattern = "changed_on_some_ranks";
    finding->diagnosis = "parameters of " + row.of +
                         " changed outside an update on some ranks alone: " + values_text(texts);
    return finding;
  }

  static bool same_bits(const Digests& a, const Digests& b) {
    return *a.list == *b.list &&
           std::equal(a.values.begin(), a.values.end(), b.values.begin(), b.values.end(),
                      [](const auto& x, const auto& y) { return x.bits == y.bits; });
  }

  // True if the next update leaves the same parameters on all ranks.
  bool is_back_after(size_t at) const {
    for (size_t next = at + 1; next < rows_.size(); ++next)
      if (rows_[next].of == rows_[at].of && rows_[next].at.phase == "update")
        return rows_[next].is_whole() && !difference_in(rows_[next], "");
    return false;
  }

  const RecordedRun& run_;
  const bool updates_centrally_;  // by one rank
  const std::vector<Row> rows_;
  const std::map<std::string, Moment> averaged_;
  std::map<std::string, std::vector<const Digests*>> last_;  // by model
  // Models whose ranks differed after an update, and no longer, or in fewer tensors, in the
  // forward.
  std::set<std::string> put_right_, sent_in_part_;
  size_t compared_ = 0;
};

}  // namespace

Judgement parameters_are_the_same(const RecordedRun& run) {
  if (run.ranks.size() == 1) return {.why_not = "one rank alone"};
  if (trains_in_stages(run)) return {.why_not = kTrainsInStages};
  Replicas replicas(run);
  auto judgement = replicas.judgement();
  judgement.remarks += own_tensors_in(run);
  if (!judgement.findings.empty() || !replicas.none_compared()) return judgement;
  if (replicas.any_divided())
    return {.why_not =
                "not judged: the parameters are divided over the ranks, each part on one; "
                "compare them with one process (--against)"};
  judgement.findings.push_back(
      {"", "nothing_compared", "",
       "no parameters of any model or optimizer were recorded on all ranks, so that nothing says "
       "that they are the same: wrap the model in DistributedDataParallel, or let the recorder "
       "watch it"});
  judgement.is_certain = false;
  return judgement;
}

}  // namespace lockstep::recorded
