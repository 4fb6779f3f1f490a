// Whether the ranks share one dataset as they should.
#include "harness/core/text.h"
#include "harness/core/trace.h"
#include "harness/judge/passes.h"
#include "harness/judge/rows.h"

#include <algorithm>
#include <map>
#include <set>

namespace lockstep::recorded {

namespace {

Judgement nothing_dealt(const RecordedRun& run) {
  return {.why_not =
              run.ranks.size() == 1 ? "one rank alone" : "no loader or sampler dealt on all ranks"};
}

std::string drawn_text(const PassRow& row) {
  std::string text;
  constexpr size_t kRanksMost = 8;
  for (size_t rank = 0; rank < std::min(row.by_rank.size(), kRanksMost); ++rank) {
    const auto& pass = row.by_rank[rank];
    text += "\nrank " + std::to_string(rank) + " drew " + counted(pass.indices.size(), "sample") +
            ": " + listed(pass.indices);
  }
  return text;
}

// How often the ranks drew each sample, in total.
std::map<int64_t, int64_t> counts_in(const PassRow& row) {
  std::map<int64_t, int64_t> counts;
  for (const auto& pass : row.by_rank)
    for (const int64_t index : pass.indices) ++counts[index];
  return counts;
}

std::optional<Finding> not_a_partition(const PassRow& row) {
  const auto& first = row.by_rank.front();
  const int64_t length = first.length(), world = static_cast<int64_t>(row.by_rank.size());
  const bool drops = first.is->truth("drops");
  const auto counts = counts_in(row);
  int64_t total = 0;
  std::vector<int64_t> twice;
  for (const auto& [index, count] : counts) {
    if (index < 0 || index >= length)
      return Finding{"", "out_of_range", row.place(),
                     row.place() + " drew sample " + std::to_string(index) + " of a dataset of " +
                         std::to_string(length)};
    total += count;
    if (count > 1) twice.push_back(index);
  }
  const int64_t padding = drops || length % world == 0 ? 0 : world - length % world;
  const auto distinct = static_cast<int64_t>(counts.size());
  const int64_t batch = first.is->whole("batch_size").value_or(1);
  const int64_t tail = first.is->truth("drops_batch") ? world * std::max<int64_t>(batch - 1, 0) : 0;
  if (total - distinct > padding)
    return Finding{"", "not_a_partition", row.place(),
                   row.place() + ": " + counted(twice.size(), "sample") + " of " +
                       std::to_string(length) + " drawn more than once, where padding takes " +
                       std::to_string(padding) + ": " + listed(twice) + drawn_text(row)};
  if (distinct < length - (drops ? length % world : 0) - tail) {
    std::vector<int64_t> never;
    for (int64_t index = 0; index < length && never.size() < 1000; ++index)
      if (!counts.contains(index)) never.push_back(index);
    return Finding{"", "not_a_partition", row.place(),
                   row.place() + ": " + std::to_string(length - distinct) + " of " +
                       counted(static_cast<size_t>(length), "sample") +
                       " drawn by no rank: " + listed(never) + drawn_text(row)};
  }
  return {};
}

// Every rank draws all samples of what is one dataset, as its first sample shows.
std::optional<Finding> not_split(const PassRow& row) {
  const auto& first = row.by_rank.front();
  const auto print = first.is->text("fingerprint");
  for (const auto& pass : row.by_rank) {
    const std::set<int64_t> distinct(pass.indices.begin(), pass.indices.end());
    const bool drew_all =
        pass.length() == first.length() && static_cast<int64_t>(distinct.size()) == pass.length();
    if (!drew_all || print.empty() || pass.is->text("fingerprint") != print) return {};
  }
  return Finding{"", "every_rank_draws_all", row.place(),
                 row.place() + ": every rank draws all " + std::to_string(first.length()) +
                     " samples of one dataset: its loader has a " + first.is->text("sampler") +
                     ", which does not know the ranks" + drawn_text(row)};
}

}  // namespace

Judgement datasets_are_the_same(const RecordedRun& run) {
  const auto rows = pass_rows(run);
  if (run.ranks.size() == 1 || rows.empty()) return nothing_dealt(run);
  Judgement judgement{.compared =
                          std::to_string(rows.size()) + (rows.size() == 1 ? " pass" : " passes")};
  for (const auto& row : rows) {
    if (!row.is_sharded()) continue;
    for (const auto& [field, pattern] : {std::pair{"length", "other_length"},
                                         {"seed", "split_differently"},
                                         {"sampler_epoch", "split_differently"},
                                         {"shuffle", "split_differently"},
                                         {"replicas", "split_differently"},
                                         {"drops", "split_differently"}}) {
      std::vector<std::string> texts;
      for (const auto& pass : row.by_rank) {
        const auto found = pass.is->values.find(field);
        texts.push_back(found == pass.is->values.end() ? "none" : excerpt(found->dump()));
      }
      if (all_alike(texts)) continue;
      judgement.findings.push_back(
          {"", pattern, row.place(),
           "the " + std::string(field) + " of " + row.place() + ": " + values_text(texts)});
      return judgement;
    }
  }
  return judgement;
}

Judgement passes_are_partitions(const RecordedRun& run) {
  const auto rows = pass_rows(run);
  if (run.ranks.size() == 1 || rows.empty()) return nothing_dealt(run);
  Judgement judgement;
  size_t judged = 0;
  for (const auto& row : rows) {
    const bool is_whole = row.all(&Pass::is_exhausted) && row.by_rank.front().length() >= 0;
    if (!is_whole || !(row.is_sharded() || row.all(&Pass::trains))) continue;
    ++judged;
    if (auto finding = row.is_sharded() ? not_a_partition(row) : not_split(row)) {
      judgement.findings.push_back(std::move(*finding));
      break;
    }
  }
  if (judged == 0) return {.why_not = "no pass that a sampler splits came to its end"};
  judgement.compared = std::to_string(judged) + (judged == 1 ? " pass" : " passes");
  return judgement;
}

// What a sampler adds so that all ranks draw as many samples counts twice in an average.
Judgement evaluations_repeat_no_sample(const RecordedRun& run) {
  if (run.ranks.size() == 1) return {.why_not = "one rank alone"};
  Judgement judgement;
  size_t passes = 0;
  for (const auto& row : pass_rows(run)) {
    const bool trains = std::any_of(row.by_rank.begin(), row.by_rank.end(),
                                    [](const Pass& pass) { return pass.trains; });
    // Nothing says what a sampler is for whose order was taken in one go, and not in batches.
    const auto& first = row.by_rank.front();
    const bool is_in_use = row.source.starts_with("loader ") || first.batch_ends.size() > 1 ||
                           first.is->whole("batch_size").value_or(1) > 1;
    if (trains || !is_in_use || !row.is_sharded() || !row.all(&Pass::is_exhausted)) continue;
    ++passes;
    std::vector<int64_t> repeated;
    for (const auto& [index, count] : counts_in(row))
      if (count > 1) repeated.push_back(index);
    if (repeated.empty() || !judgement.findings.empty()) continue;
    judgement.findings.push_back(
        {"", "evaluation_padded", row.place(),
         row.place() + ", in which no backward ran, drew " + counted(repeated.size(), "sample") +
             " of " + std::to_string(row.by_rank.front().length()) +
             " more than once, which an average over the ranks counts as often: " +
             listed(repeated) + drawn_text(row)});
  }
  if (passes == 0) return {.why_not = "no pass without a backward was split over the ranks"};
  judgement.compared = std::to_string(passes) + (passes == 1 ? " pass" : " passes");
  return judgement;
}

Judgement orders_change(const RecordedRun& run) {
  constexpr int64_t kLengthLeast = 8;  // shuffled orders of fewer samples repeat by chance
  Judgement judgement;
  size_t compared = 0;
  const auto rows = pass_rows(run);
  for (size_t i = 1; i < rows.size(); ++i) {
    const auto &before = rows[i - 1], &row = rows[i];
    const bool comparable = row.source == before.source && row.is_sharded() &&
                            row.all(&Pass::is_exhausted) && before.all(&Pass::is_exhausted) &&
                            row.all(&Pass::trains) && row.by_rank.front().is->truth("shuffle");
    if (!comparable) continue;
    ++compared;
    const auto epoch = [](const PassRow& of) {
      return of.by_rank.front().is->whole("sampler_epoch");
    };
    const bool same_epoch = epoch(row) == epoch(before);
    bool same = true;
    for (size_t rank = 0; rank < row.by_rank.size(); ++rank)
      same = same && row.by_rank[rank].indices == before.by_rank[rank].indices;
    if (!same || (!same_epoch && row.by_rank.front().length() < kLengthLeast)) continue;
    judgement.findings.push_back(
        {"", "epoch_ignored", row.place(),
         row.place() + " has the order of the pass before it on every rank: " +
             (same_epoch ? "set_epoch was not called between them; the epoch of its sampler is " +
                               std::to_string(epoch(row).value_or(0)) + " in both"
                         : "set_epoch was called, on a sampler that does not use it") +
             drawn_text(row)});
    break;
  }
  if (compared == 0)
    return {.why_not = "no loader that shuffles made two whole passes of training"};
  judgement.compared = counted(compared, "pair of passes");
  if (compared != 1) judgement.compared = std::to_string(compared) + " pairs of passes";
  return judgement;
}

}  // namespace lockstep::recorded
