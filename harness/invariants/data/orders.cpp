// Judges whether passes of training have orders of their own.
#include "harness/base/text.h"
#include "harness/invariants/data/batches.h"
#include "harness/invariants/rows.h"

#include <algorithm>

namespace lockstep::recorded {

namespace {

// True if each rank drew what it drew first in the pass before. Few samples may be so by chance.
bool begins_like(const PassRow& row, const PassRow& before) {
  constexpr size_t kSamplesLeast = 8;
  size_t drawn = 0;
  for (size_t rank = 0; rank < row.by_rank.size(); ++rank) {
    const auto &now = row.by_rank[rank].indices, &then = before.by_rank[rank].indices;
    if (now.empty() || now.size() > then.size() ||
        !std::equal(now.begin(), now.end(), then.begin()))
      return false;
    drawn += now.size();
  }
  return row.all_whole() || drawn >= kSamplesLeast;
}

// The last whole pass before one that shuffles, of the same loader, or of an earlier one over the
// same dataset: some programs make their loader anew in each epoch. Null where there is none.
const PassRow* last_whole_pass(const std::vector<PassRow>& rows, size_t number) {
  if (!trains_shuffled(rows[number])) return nullptr;
  const auto& is = rows[number].by_rank.front();
  for (size_t before = number; before-- > 0;) {
    const auto& row = rows[before];
    const auto& other = row.by_rank.front();
    if (!trains_shuffled(row) || !row.all_whole()) continue;
    const bool is_remade = row.source != rows[number].source && other.end < is.begin &&
                           other.is->text("sampler") == is.is->text("sampler") &&
                           have_one_dataset(other, is);
    if (row.source == rows[number].source || is_remade) return &row;
  }
  return nullptr;
}

// The last pass of training before one, of the same loader, or of an earlier one over the same
// dataset or sampler, whichever object `field` names; evaluations may lie between. Null where there
// is none.
const PassRow* last_pass_over(const std::vector<PassRow>& rows, size_t number, const char* field) {
  const auto& is = rows[number].by_rank.front();
  for (size_t before = number; before-- > 0;) {
    const auto& other = rows[before].by_rank.front();
    const auto object = is.is->text(field);
    const bool is_remade =
        !object.empty() && other.is->text(field) == object && other.end < is.begin;
    if (rows[before].all(&Pass::trains) &&
        (rows[before].source == rows[number].source || is_remade))
      return &rows[before];
  }
  return nullptr;
}

// True if a fact says that it does not shuffle.
bool keeps_order(const Fact& fact, const char* field) {
  const auto found = fact.values.find(field);
  return found != fact.values.end() && found->is_boolean() && !found->get<bool>();
}

// A pass over a stream whose batches are those of the pass before, though the dataset has an epoch:
// another one, of which its workers hold copies, or one that the program never set.
std::optional<Finding> stale_stream(const PassRow& row, const PassRow& before) {
  constexpr size_t kBatchesLeast = 2;
  const auto epoch = [](const PassRow& of) {
    return of.by_rank.front().is->whole("dataset_epoch");
  };
  if (!row.all(&Pass::trains) || !row.all_whole() || !before.all_whole() || !epoch(row) ||
      !epoch(before) || keeps_order(*row.by_rank.front().is, "dataset_shuffles"))
    return {};
  for (size_t rank = 0; rank < row.by_rank.size(); ++rank) {
    const auto &now = row.by_rank[rank].batches, &then = before.by_rank[rank].batches;
    if (!row.by_rank[rank].is->truth("iterable") || now.size() < kBatchesLeast ||
        !std::equal(
            now.begin(), now.end(), then.begin(), then.end(),
            [](const auto& a, const auto& b) { return !a.print.empty() && a.print == b.print; }))
      return {};
  }
  if (epoch(row) == epoch(before))
    return Finding{"", "epoch_ignored", row.place(),
                   row.place() + " has the batches of " + before.place() +
                       " on every rank: the epoch of its dataset is " +
                       std::to_string(*epoch(row)) + " in both, and was not set between them"};
  return Finding{"", "epoch_ignored", row.place(),
                 row.place() + " has the batches of " + before.place() +
                     " on every rank, though the epoch of its dataset was " +
                     std::to_string(*epoch(before)) + " and is " + std::to_string(*epoch(row)) +
                     ": workers that persist keep the dataset as it was when they began"};
}

// A pass by a sampler of the program's own that has an epoch, the same as in the pass before, and
// deals what that dealt, in an order that is not that of the numbers.
std::optional<Finding> forgotten_epoch(const PassRow& row, const PassRow& before) {
  constexpr size_t kSamplesLeast = 8;
  const auto epoch = [](const PassRow& of) { return of.by_rank.front().is->whole("order_epoch"); };
  const auto& first = row.by_rank.front();
  if (trains_shuffled(row) || keeps_order(*first.is, "shuffle") || !row.all(&Pass::trains) ||
      !row.all(&Pass::is_exhausted) || !before.all(&Pass::is_exhausted) || !epoch(row) ||
      epoch(row) != epoch(before) || keeps_order(*first.is, "order_shuffles"))
    return {};
  for (size_t rank = 0; rank < row.by_rank.size(); ++rank) {
    const auto& indices = row.by_rank[rank].indices;
    if (indices.size() < kSamplesLeast || indices != before.by_rank[rank].indices ||
        std::is_sorted(indices.begin(), indices.end()))
      return {};
  }
  return Finding{"", "epoch_ignored", row.place(),
                 row.place() + " has the order of " + before.place() +
                     " on every rank: the epoch of its sampler is " + std::to_string(*epoch(row)) +
                     " in both, and was not set between them",
                 draws_of(row)};
}

// Several cut passes in a row that begin with the same samples on every rank: a program that takes
// the first batches of its loader again and again.
std::optional<Finding> begins_again(const std::vector<PassRow>& rows, size_t number) {
  constexpr size_t kPassesLeast = 3, kSamplesLeast = 8;
  const auto& row = rows[number];
  if (!trains_shuffled(row)) return {};
  size_t passes = 1, drawn = row.draws();
  for (size_t at = number; passes < kPassesLeast; ++passes) {
    const auto* before = last_pass_over(rows, at, "sampler_of");
    if (!before || !trains_shuffled(*before) || row.all_whole() || before->all_whole()) return {};
    for (size_t rank = 0; rank < row.by_rank.size(); ++rank)
      if (row.by_rank[rank].indices.empty() ||
          row.by_rank[rank].indices != before->by_rank[rank].indices)
        return {};
    at = static_cast<size_t>(before - rows.data());
  }
  if (drawn < kSamplesLeast || row.by_rank.front().length() <= static_cast<int64_t>(drawn))
    return {};
  return Finding{"", "epoch_ignored", row.place(),
                 row.place() +
                     " takes the same samples in the same order as the two passes "
                     "before it, on every rank, and ends there too: the program takes "
                     "the first batches of its loader again and again, without set_epoch",
                 draws_of(row)};
}

}  // namespace

Judgement orders_change(const RecordedRun& run) {
  constexpr int64_t kLengthLeast = 8;  // shuffled orders of fewer samples repeat by chance
  Judgement judgement;
  size_t compared = 0;
  auto rows = pass_rows(run);
  std::stable_sort(rows.begin(), rows.end(), [](const PassRow& a, const PassRow& b) {
    return a.by_rank.front().begin < b.by_rank.front().begin;
  });
  for (size_t i = 0; i < rows.size() && judgement.findings.empty(); ++i) {
    const auto& row = rows[i];
    const auto *by_sampler = last_pass_over(rows, i, "sampler_of"),
               *by_dataset = last_pass_over(rows, i, "of");
    const auto found = [&](std::optional<Finding> finding) {
      if (finding) judgement.add(Found{std::move(*finding), row.by_rank.front().last});
    };
    if (by_sampler) found(forgotten_epoch(row, *by_sampler));
    if (by_dataset) found(stale_stream(row, *by_dataset));
    found(begins_again(rows, i));
    const auto* before = last_whole_pass(rows, i);
    if (!before || !judgement.findings.empty()) continue;
    ++compared;
    const auto epoch = [](const PassRow& of) {
      return of.by_rank.front().is->whole("sampler_epoch");
    };
    const bool same_epoch = epoch(row) == epoch(*before);
    if (!begins_like(row, *before) || (!same_epoch && row.by_rank.front().length() < kLengthLeast))
      continue;
    found(Finding{
        "", "epoch_ignored", row.place(),
        row.place() + " has the order of " + before->place() + " on every rank: " +
            (same_epoch ? "set_epoch was not called between them; the epoch of its sampler is " +
                              std::to_string(epoch(row).value_or(0)) + " in both"
                        : "set_epoch was called, on a sampler that does not use it"),
        draws_of(row)});
  }
  if (compared == 0 && judgement.findings.empty())
    return {.why_not = "no loader that shuffles made two whole passes of training"};
  judgement.compared = counted(compared, "pair of passes", "pairs of passes");
  return judgement;
}

}  // namespace lockstep::recorded
