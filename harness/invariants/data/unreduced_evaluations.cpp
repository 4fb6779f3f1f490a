#include "harness/invariants/data/unreduced_evaluations.h"

#include "harness/base/text.h"
#include "harness/invariants/endings.h"

#include <algorithm>

namespace lockstep::recorded {

namespace {

constexpr std::string_view kNotSent =
    ", and nothing that the recorder saw brings the metrics of the ranks together: the metric that "
    "a rank reports, or keeps its best weights by, is that of its own part";

// The collectives that the program issued itself, in order; none where the rank's recorder does not
// write a fact for each, as it does for each batch that a loader hands out.
std::optional<std::vector<std::string>> own_collectives(const Rank& rank) {
  std::vector<std::string> ops;
  for (const auto& event : rank.history.events)
    if (const auto* is = std::get_if<Collective>(&event.what); is && !is->op.starts_with("ddp_"))
      ops.push_back(is->op);
  const auto count_of_facts = [&](std::string_view name) {
    return std::count_if(rank.records.begin(), rank.records.end(),
                         [&](const auto& each) { return fact_in(each, name) != nullptr; });
  };
  if (static_cast<size_t>(count_of_facts("call")) != ops.size() || count_of_facts("batch") == 0)
    return {};
  return ops;
}

bool combines(const std::string& op) {
  return op != "barrier" && op != "broadcast" && op != "scatter";
}

// True if the rank reduces, gathers or sends something from the begin of the pass up to the next
// update.
bool is_combined(const Rank& rank, const std::vector<std::string>& ops, const Pass& pass) {
  size_t call = 0;
  for (size_t at = 0; at < rank.records.size(); ++at) {
    const auto* fact = std::get_if<Fact>(&rank.records[at].what);
    if (!fact) continue;
    const bool is_call = fact->name == fact::kCall;
    const auto number = is_call ? call++ : call;
    if (at < pass.begin) continue;
    if (fact->name == fact::kExchange || (is_call && combines(ops[number]))) return true;
    if (at > pass.end && is_optimizer(fact->name)) return false;
  }
  return false;
}

// True if no update follows the pass, and nothing brings together what it was for. What follows an
// earlier pass of its loader may be of the updates behind that.
bool ends_uncombined(const Rank& rank, const std::vector<std::string>& ops, const Pass& pass) {
  const auto behind = rank.records.begin() + static_cast<std::ptrdiff_t>(pass.end);
  return !is_combined(rank, ops, pass) && rank.history.ending.kind == Ending::Kind::returned &&
         std::none_of(behind, rank.records.end(),
                      [](const Record& record) { return optimizer_in(record) != nullptr; });
}

// A pass over what a rank trains on may be for statistics.
bool any_trains(const std::vector<Pass>& passes) {
  return std::any_of(passes.begin(), passes.end(), [](const Pass& pass) { return pass.trains; });
}

// The whole passes of a rank, without a backward, over its part of a dataset.
std::vector<Pass> own_evaluations(const Rank& rank) {
  std::vector<Pass> own;
  for (const auto& [source, passes] : passes_of(rank)) {
    if (!is_loader(source) || any_trains(passes)) continue;
    for (const auto& pass : passes)
      if (pass.is_whole() && pass.is->whole("replicas").value_or(1) > 1) own.push_back(pass);
  }
  return own;
}

// One rank evaluates, by a sampler that gives it a part, and another one does not.
std::optional<Finding> evaluated_by_some(const RecordedRun& run) {
  const Rank* alone = nullptr;
  std::optional<Pass> found;
  bool any_without = false;
  for (const auto& rank : run.ranks) {
    auto own = own_evaluations(rank);
    any_without = any_without || (own.empty() && updates_of(rank) > 0);
    if (own.empty() || alone) continue;
    alone = &rank;
    found = std::move(own.front());
  }
  if (!alone || !any_without) return {};
  const auto& pass = *found;
  return Finding{
      "",
      "evaluation_not_reduced",
      rank_text(*alone),
      rank_text(*alone) + " evaluates on its own part of a dataset, " +
          counted(pass.indices.size(), "sample") + " of " + std::to_string(pass.length()) +
          ", which a sampler splits over the ranks, and other ranks do not evaluate: "
          "the others' samples count in no metric",
      {Cause{"a DistributedSampler in the loader with which one rank evaluates: let it "
             "draw all samples, or let all ranks evaluate and reduce what they counted"}}};
}

}  // namespace

std::optional<Finding> evaluation_not_reduced(const RecordedRun& run, std::vector<PassRow> rows) {
  if (auto some = evaluated_by_some(run)) return some;
  const auto& rank = run.ranks.front();
  const auto passes = passes_of(rank);
  std::erase_if(rows, [&](const PassRow& row) {
    const auto found = passes.find(row.source);
    return found != passes.end() && any_trains(found->second);
  });
  const auto ops = own_collectives(rank);
  if (!ops) return {};
  const auto found = std::find_if(rows.begin(), rows.end(), [&](const PassRow& row) {
    return row.number > 0 && ends_uncombined(rank, *ops, row.by_rank.front());
  });
  const bool any_combined = std::any_of(rows.begin(), rows.end(), [&](const PassRow& row) {
    return is_combined(rank, *ops, row.by_rank.front());
  });
  if (rows.empty() || (any_combined && found == rows.end())) return {};
  const auto& row = any_combined ? *found : rows.front();
  return Finding{
      "",
      "evaluation_not_reduced",
      row.place(),
      row.place() + ", in which no backward ran, is split over the ranks" + std::string(kNotSent),
      {"the cure: all_reduce what each rank counted (right answers and samples, not "
       "their ratio) before it is divided"}};
}

}  // namespace lockstep::recorded
