// Judges whether the ranks share one dataset as they should.
#include "harness/base/text.h"
#include "harness/invariants/data/batches.h"
#include "harness/invariants/data/numberings.h"
#include "harness/invariants/data/overlaps.h"
#include "harness/invariants/habits/not_data_parallel.h"
#include "harness/invariants/habits/populations.h"
#include "harness/invariants/rows.h"
#include "harness/verdict/trace.h"

#include <algorithm>
#include <map>
#include <set>

namespace lockstep::recorded {

namespace {

Judgement nothing_dealt(const RecordedRun& run) {
  return {.why_not =
              run.ranks.size() == 1 ? "one rank alone" : "no loader or sampler dealt on all ranks"};
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
  const int64_t batch = std::max<int64_t>(first.is->whole("batch_size").value_or(1), 1);
  // A sampler of the program's own may fill up the last batch of each rank.
  const auto round = row.is_of_distributed_sampler() ? world : world * batch;
  const int64_t padding = drops || length % round == 0 ? 0 : round - length % round;
  const auto distinct = static_cast<int64_t>(counts.size());
  const int64_t tail = first.is->truth("drops_batch") ? world * std::max<int64_t>(batch - 1, 0) : 0;
  if (total - distinct > padding)
    return Finding{"", "not_a_partition", row.place(),
                   row.place() + ": " + counted(twice.size(), "sample") + " of " +
                       std::to_string(length) + " drawn more than once, where padding takes " +
                       std::to_string(padding) + ": " + listed(twice),
                   draws_of(row)};
  if (distinct < length - (drops ? length % world : 0) - tail) {
    std::vector<int64_t> never;
    for (int64_t index = 0; index < length && never.size() < 1000; ++index)
      if (!counts.contains(index)) never.push_back(index);
    return Finding{"", "not_a_partition", row.place(),
                   row.place() + ": " + std::to_string(length - distinct) + " of " +
                       counted(static_cast<size_t>(length), "sample") +
                       " drawn by no rank: " + listed(never),
                   draws_of(row)};
  }
  return {};
}

Finding repeated(const PassRow& row) {
  return {"", "repeats_samples", row.place(),
          row.place() + ": its " + row.by_rank.front().is->text("sampler") +
              " splits the draws over the ranks and repeats samples, so that they need not make up "
              "the dataset: which samples the ranks share is not judged"};
}

// True if every rank drew the whole dataset several times in one pass: its sampler has no epochs.
bool is_endless(const PassRow& row) {
  return std::all_of(row.by_rank.begin(), row.by_rank.end(), [](const Pass& pass) {
    return static_cast<int64_t>(pass.indices.size()) >= 2 * pass.length();
  });
}

// Every rank draws all samples of what is one dataset, as its first sample shows.
std::optional<Finding> not_split(const PassRow& row) {
  const auto& first = row.by_rank.front();
  for (const auto& pass : row.by_rank) {
    const std::set<int64_t> distinct(pass.indices.begin(), pass.indices.end());
    const bool drew_all =
        pass.length() == first.length() && static_cast<int64_t>(distinct.size()) == pass.length();
    if (!drew_all || !have_one_dataset(first, pass)) return {};
  }
  return Finding{"", "every_rank_draws_all", row.place(),
                 row.place() + ": every rank draws all " + std::to_string(first.length()) +
                     " samples of one dataset: its loader has a " + first.is->text("sampler") +
                     ", which does not know the ranks",
                 draws_of(row)};
}

std::optional<Finding> other_content(const PassRow& row) {
  // No recorder knows the content of a part of a dataset, so the numbers of its samples are
  // compared too.
  for (const auto& [field, what] :
       {std::pair{"fingerprint", "content"}, {"subset", "choice of samples"}}) {
    std::vector<std::string> texts;
    for (const auto& pass : row.by_rank) texts.push_back(pass.is->text(field));
    const bool all_there =
        std::none_of(texts.begin(), texts.end(), [](const auto& text) { return text.empty(); });
    if (all_there && !all_alike(texts))
      return Finding{"", "other_content", row.place(),
                     "the dataset's " + std::string(what) + ", by its fingerprint, in " +
                         row.place() + ": " + values_text(texts)};
  }
  return {};
}

// True where ranks have the same samples under other numbers: a part of one dataset, or one sample
// that ranks were handed under two numbers. Otherwise each rank may have data of its own.
bool numbers_the_same_samples(const PassRow& row) {
  std::map<std::string, int64_t> numbers;
  for (const auto& pass : row.by_rank) {
    if (pass.is_of_a_subset()) return true;
    for (const auto& batch : pass.batches)
      if (batch.first_index >= 0 &&
          numbers.try_emplace(batch.first_print, batch.first_index).first->second !=
              batch.first_index)
        return true;
  }
  return false;
}

// A finding that is one no more where each rank takes a part of its own of what its loader hands
// out.
bool is_of_whole_batches(const Finding& finding) {
  return finding.pattern == "same_batches" || finding.pattern == "every_rank_draws_all" ||
         finding.pattern == "overlapping_draws";
}

Finding divided_batches(const Finding& finding) {
  return {"", "divides_batches", finding.where,
          "every rank is handed the same batches, and its forwards take parts of them that are not "
          "those of other ranks: the program divides each batch itself, which no sampler shows"};
}

}  // namespace

Judgement datasets_are_the_same(const RecordedRun& run) {
  const auto rows = pass_rows(run);
  if (run.ranks.size() == 1 || rows.empty()) return nothing_dealt(run);
  Judgement judgement{.compared = counted(rows.size(), "pass", "passes")};
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
      judgement.add(
          Found{{"", pattern, row.place(),
                 "the " + std::string(field) + " of " + row.place() + ": " + values_text(texts)},
                row.by_rank.front().last});
      return judgement;
    }
    if (auto numbering = other_numbering(row)) {
      judgement.add(Found{std::move(*numbering), row.by_rank.front().last});
      return judgement;
    }
    auto other = other_content(row);
    if (!other) continue;
    if (!numbers_the_same_samples(row)) {
      if (judgement.remarks.empty()) judgement.remarks.push_back(std::move(*other));
      continue;
    }
    other->details.push_back(
        "one sampler splits it by number, so that ranks draw the same samples, and some that "
        "others keep for validation: was it split with a seed of each rank's own, or divided by "
        "rank before the sampler divides it once more?");
    judgement.add(Found{std::move(*other), row.by_rank.front().last});
    return judgement;
  }
  if (auto numbers = other_numbers(rows)) judgement.findings.push_back(std::move(*numbers));
  return judgement;
}

Judgement passes_are_partitions(const RecordedRun& run) {
  if (run.ranks.size() == 1) return {.why_not = "one rank alone"};
  if (shares_batches(run)) return not_covered("ranks that divide a layer share their batches");
  if (trains_in_parts(run) || trains_a_population(run)) return not_covered(not_data_parallel(run));
  const auto rows = pass_rows(run);
  Judgement judgement;
  size_t judged = 0;
  // Other batches on each rank, of which forwards get parts too, are no share of what all are
  // handed.
  std::set<const PassRow*> shared;
  if (divides_batches(run))
    for (const auto& row : rows)
      if (row.all(&Pass::trains) && same_batches(row).finding) shared.insert(&row);
  const bool divides = !shared.empty();
  const auto found = [&](std::optional<Finding> finding, const Moment& at, bool may_divide) {
    if (!finding || !judgement.findings.empty()) return;
    if (may_divide && is_of_whole_batches(*finding)) {
      if (judgement.remarks.empty()) judgement.remarks.push_back(divided_batches(*finding));
      return;
    }
    judgement.add(Found{std::move(*finding), at});
  };
  for (const auto& row : rows) {
    const auto& at = row.by_rank.front().last;
    const bool is_whole = row.all_whole() && row.by_rank.front().length() >= 0;
    bool was_judged = row.is_sharded() && is_whole;
    const bool repeats = repeats_on_purpose(row);
    const bool may_divide = shared.contains(&row);
    if (row.all(&Pass::trains) && deals_once(row)) {
      auto same = same_batches(row);
      was_judged = was_judged || same.batches > 0;
      found(std::move(same.finding), at, may_divide);
      found(repeated_by_workers(row), at, may_divide);
      found(shared_samples(row), at, may_divide);
    }
    judged += was_judged ? 1 : 0;
    if (!is_whole || !(row.is_sharded() || row.all(&Pass::trains))) continue;
    if (row.is_sharded() && repeats) {
      found(repeats_own_orders(row), at, may_divide);
      if (judgement.remarks.empty()) judgement.remarks.push_back(repeated(row));
      continue;
    }
    if (row.is_sharded())
      found(not_a_partition(row), at, may_divide);
    else if (!is_endless(row))
      found(not_split(row), at, may_divide);
  }
  found(never_drawn(rows), rows.empty() ? Moment() : rows.back().by_rank.front().last, divides);
  auto overlap = overlapping_draws(rows);
  if (overlap && overlap->is_split)
    found(std::move(overlap->finding), overlap->at, divides);
  else if (overlap && judgement.findings.empty() && !divides)
    judgement.remarks.push_back(std::move(overlap->finding));
  auto inputs = shared_inputs(run);
  if (inputs.is_split)
    found(std::move(inputs.finding), Moment{0, "forward"}, divides);
  else if (inputs.finding && judgement.findings.empty())
    judgement.remarks.push_back(std::move(*inputs.finding));
  const auto losses = same_losses(run);
  found(losses.finding, losses.at, divides);
  if (judged == 0 && losses.backwards == 0 && judgement.findings.empty())
    return {.why_not = rows.empty() ? nothing_dealt(run).why_not
                                    : "no pass that a sampler splits came to its end",
            .remarks = judgement.remarks};
  judgement.compared =
      judged > 0 ? counted(judged, "pass", "passes") : counted(losses.backwards, "backward");
  return judgement;
}

}  // namespace lockstep::recorded
