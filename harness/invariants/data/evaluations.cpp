// The samples that evaluations draw when they are split over the ranks.
#include "harness/base/text.h"
#include "harness/invariants/data/batches.h"
#include "harness/invariants/data/unreduced_evaluations.h"
#include "harness/invariants/rows.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>

namespace lockstep::recorded {

namespace {

constexpr int64_t kMetricElementsMost = 1024;  // of a collective that combines a metric

// The program's own reductions of few elements in a forward or while a loader deals, by step: there
// an evaluation combines its metric.
std::map<int, size_t> small_reductions(const Rank& rank) {
  std::map<int, size_t> counts;
  for (const auto& event : rank.history.events) {
    const auto* is = std::get_if<Collective>(&event.what);
    if (!is || (is->op != "allreduce" && is->op != "reduce")) continue;
    if (is->elements > kMetricElementsMost) continue;
    if (event.at.phase == phase::kForward || event.at.phase == phase::kData)
      ++counts[event.at.step];
  }
  return counts;
}

// A metric was reduced after the pass: more small reductions in its step than in steps without an
// evaluation.
bool combines_a_metric(const Rank& rank, const Pass& pass, const std::set<int>& evaluated) {
  const auto counts = small_reductions(rank);
  const auto in = [&](int step) {
    const auto found = counts.find(step);
    return found == counts.end() ? size_t{0} : found->second;
  };
  size_t usual = in(pass.last.step);
  bool any = false;
  for (int step = 0; step < rank.history.last.step; ++step) {
    if (evaluated.contains(step)) continue;
    usual = std::min(usual, in(step));
    any = true;
  }
  return in(pass.last.step) > (any ? usual : 0);
}

// Says that the program gathers what the pass computed, and that nothing is known to drop the
// padding, as accelerate's gather_for_metrics does.
bool gathers_the_padding(const Rank& rank, const Pass& pass) {
  const int step = pass.last.step;
  const bool is_trimmed =
      std::any_of(rank.records.begin(), rank.records.end(), [&](const auto& is) {
        const auto* fact = fact_in(is, fact::kCall);
        return fact && is.at.step == step && fact->truth("trims");
      });
  return !is_trimmed &&
         std::any_of(rank.history.events.begin(), rank.history.events.end(),
                     [&](const auto& event) {
                       const auto* is = std::get_if<Collective>(&event.what);
                       return is && is->op.find("allgather") != std::string::npos &&
                              event.at.step == step &&
                              (event.at.phase == phase::kForward || event.at.phase == phase::kData);
                     });
}

// True if the ranks drew a dataset together by a sampler of which nothing says that it splits, none
// of them all of it, and no more than fills the last batch of each twice.
bool is_split(const PassRow& row) {
  const auto length = row.by_rank.front().length();
  std::set<int64_t> all;
  int64_t batch = 0;
  for (const auto& pass : row.by_rank) {
    const std::set<int64_t> own(pass.indices.begin(), pass.indices.end());
    if (static_cast<int64_t>(own.size()) >= length) return false;
    all.insert(own.begin(), own.end());
    batch += pass.is->whole("batch_size").value_or(1);
  }
  const auto drawn = static_cast<int64_t>(row.draws());
  return static_cast<int64_t>(all.size()) == length && drawn - length < batch;
}

bool evaluates(const PassRow& row) {
  const bool trains = std::any_of(row.by_rank.begin(), row.by_rank.end(),
                                  [](const Pass& pass) { return pass.trains; });
  // Nothing says what a sampler is for whose order was taken in one go, and not in batches.
  const auto& first = row.by_rank.front();
  const bool is_in_use = is_loader(row.source) || first.batch_ends.size() > 1 ||
                         first.is->whole("batch_size").value_or(1) > 1;
  return !trains && is_in_use && (row.is_sharded() || is_split(row)) && row.all_whole();
}

// The passes without a backward in which each rank draws a Subset of its own that it trains on in
// no other.
std::vector<PassRow> subsets_evaluated(const std::vector<PassRow>& all) {
  std::set<std::string> trained;
  for (const auto& row : all)
    for (const auto& pass : row.by_rank)
      if (pass.trains) trained.insert(pass.is->text("subset"));
  std::vector<PassRow> rows;
  std::ranges::copy_if(all, std::back_inserter(rows), [&](const PassRow& row) {
    std::set<std::string> subsets;
    for (const auto& pass : row.by_rank) subsets.insert(pass.is->text("subset"));
    return is_loader(row.source) && row.all_whole() && !subsets.contains("") &&
           subsets.size() == row.by_rank.size() &&
           std::ranges::none_of(subsets, [&](const auto& is) { return trained.contains(is); });
  });
  return rows;
}

std::vector<int64_t> repeated_in(const PassRow& row) {
  std::map<int64_t, int64_t> counts;
  for (const auto& pass : row.by_rank)
    for (const int64_t index : pass.indices) ++counts[index];
  std::vector<int64_t> repeated;
  for (const auto& [index, count] : counts)
    if (count > 1) repeated.push_back(index);
  return repeated;
}

// True if another pass of the same evaluation draws as many samples, as a loader of those that are
// left does.
bool draws_the_rest(const PassRow& row, int64_t missing, const std::vector<PassRow>& all) {
  const auto step = row.by_rank.front().last.step;
  return std::ranges::any_of(all, [&](const PassRow& other) {
    const auto& first = other.by_rank.front();
    return other.source != row.source && first.last.step == step && !first.trains &&
           first.length() == missing && first.is_of_a_subset();
  });
}

// A remark where a sampler, or a loader, leaves out the last samples of an evaluation.
std::optional<Finding> left_out(const std::vector<PassRow>& rows, const std::vector<PassRow>& all) {
  for (const auto& row : rows) {
    std::set<int64_t> drawn;
    for (const auto& pass : row.by_rank) drawn.insert(pass.indices.begin(), pass.indices.end());
    const auto& first = row.by_rank.front();
    const auto missing = first.length() - static_cast<int64_t>(drawn.size());
    const bool drops = first.is->truth("drops") || first.is->truth("drops_batch");
    if (missing <= 0 || !drops || drawn.empty() || draws_the_rest(row, missing, all)) continue;
    return Finding{"", "evaluation_left_out", row.place(),
                   row.place() + ", in which no backward ran, draws " +
                       std::to_string(drawn.size()) + " of " + counted(first.length(), "sample") +
                       ": drop_last leaves out the others, which no metric counts"};
  }
  return {};
}

}  // namespace

// The padding that a sampler adds so that all ranks draw as many samples counts twice in an average
// over the ranks. A program may drop it instead, or average nothing.
Judgement evaluations_repeat_no_sample(const RecordedRun& run) {
  if (run.ranks.size() == 1) return {.why_not = "one rank alone"};
  const auto all = pass_rows(run);
  auto rows = all;
  std::erase_if(rows, [](const PassRow& row) { return !evaluates(row); });
  std::set<int> evaluated;
  for (const auto& row : rows) evaluated.insert(row.by_rank.front().last.step);
  Judgement judgement;
  for (const auto& row : rows) {
    const auto repeated = repeated_in(row);
    const auto& first = row.by_rank.front();
    if (repeated.empty() || !judgement.findings.empty()) continue;
    const bool is_combined = combines_a_metric(run.ranks.front(), first, evaluated);
    const bool is_gathered = gathers_the_padding(run.ranks.front(), first);
    if (!is_combined && (!judgement.remarks.empty() || (!row.is_sharded() && !is_gathered)))
      continue;
    Finding finding{"", "evaluation_padded", row.place(),
                    row.place() + ", in which no backward ran, drew " +
                        counted(repeated.size(), "sample") + " of " +
                        std::to_string(first.length()) + " more than once, " +
                        (is_combined ? "and a reduction after it counts them as often: "
                                     : "which counts them as often unless the program drops "
                                       "them: ") +
                        listed(repeated),
                    draws_of(row)};
    if (!is_combined && is_gathered)
      finding.details.push_back(
          "the program gathers what it computed: drop what is behind the dataset's length, as "
          "gather_for_metrics() of accelerate does, and its gather() does not");
    if (is_combined) {
      judgement.add(Found{std::move(finding), first.last});
      judgement.remarks.clear();
    } else {
      judgement.remarks.push_back(std::move(finding));
    }
  }
  auto split = rows;
  std::ranges::move(subsets_evaluated(all), std::back_inserter(split));
  for (auto remark : {evaluation_not_reduced(run, split), left_out(rows, all)})
    if (remark) judgement.remarks.push_back(std::move(*remark));
  if (rows.empty() && judgement.remarks.empty())
    return {.why_not = "no pass without a backward was split over the ranks"};
  judgement.compared = counted(split.size(), "pass", "passes");
  return judgement;
}

}  // namespace lockstep::recorded
