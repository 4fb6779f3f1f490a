// A run beside the one that it resumes.
#include "harness/invariants/resumed.h"

#include "harness/base/text.h"
#include "harness/invariants/rows.h"
#include "harness/recorded/passes.h"

#include <algorithm>
#include <array>

namespace lockstep::recorded {

namespace {

bool are_parameters_of_a_model(const Digests* digests) {
  return digests && digests->list->role == "parameters" &&
         !digests->list->of.starts_with("optimizer ");
}

bool hold_the_same(const Digests& a, const Digests& b) {
  return a.list->of == b.list->of && a.list->tensors == b.list->tensors &&
         std::equal(a.values.begin(), a.values.end(), b.values.begin(), b.values.end(),
                    [](const Digest& one, const Digest& other) { return one.bits == other.bits; });
}

// The parameters of the first model as the first update found them: a checkpoint may be loaded
// after the model was wrapped. Null where none were recorded.
const Digests* first_parameters(const Rank& rank) {
  const Digests* found = nullptr;
  for (const auto& record : rank.records) {
    if (record.at.step > 0 || record.at.phase == "update") break;
    const auto* digests = std::get_if<Digests>(&record.what);
    if (are_parameters_of_a_model(digests) && (!found || digests->list->of == found->list->of))
      found = digests;
  }
  return found;
}

// The last update of the earlier run after which it held these parameters; none where it has none.
std::optional<int> step_with(const Digests& parameters, const Rank& before) {
  std::optional<int> step;
  for (const auto& record : before.records)
    if (const auto* digests = std::get_if<Digests>(&record.what);
        are_parameters_of_a_model(digests) && record.at.phase == "update" &&
        hold_the_same(*digests, parameters))
      step = record.at.step;
  return step;
}

bool have_one_order(const PassRow& a, const PassRow& b) {
  return std::equal(
      a.by_rank.begin(), a.by_rank.end(), b.by_rank.begin(), b.by_rank.end(),
      [](const Pass& one, const Pass& other) { return one.indices == other.indices; });
}

std::string epoch_text(const PassRow& row) {
  const auto epoch = row.by_rank.front().is->whole("sampler_epoch");
  return epoch ? std::to_string(*epoch) : "unknown";
}

}  // namespace

std::span<const InvariantAfter> invariants_after() {
  static constexpr std::array kInvariants{
      InvariantAfter{"data.order_continues",
                     "A training that resumes must not draw the order of an epoch that it has made",
                     order_continues}};
  return kInvariants;
}

Judgement order_continues(const RecordedRun& run, const RecordedRun& before) {
  if (run.ranks.size() != before.ranks.size())
    return {.why_not = "the run before had " + counted(before.ranks.size(), "rank")};
  const auto* parameters = first_parameters(run.ranks.front());
  if (!parameters) return {.why_not = "no parameters were recorded before the first update"};
  const auto step = step_with(*parameters, before.ranks.front());
  if (!step)
    return {.why_not =
                "it begins with parameters that the run before had after no update that was "
                "recorded, so that it does not resume it"};
  Judgement judgement;
  size_t compared = 0;
  const auto earlier = pass_rows(before);
  for (const auto& row : pass_rows(run)) {
    if (!trains_shuffled(row) || !row.all_whole()) continue;
    for (const auto& other : earlier) {
      if (!trains_shuffled(other) || !other.all_whole() ||
          other.by_rank.front().last.step > *step ||
          !have_one_dataset(other.by_rank.front(), row.by_rank.front()))
        continue;
      ++compared;
      if (!have_one_order(row, other) || !judgement.findings.empty()) continue;
      judgement.at = row.by_rank.front().last;
      judgement.findings.push_back(
          {"", "epoch_drawn_before", row.place(),
           row.place() + " has the order of " + other.place() +
               " of the run before on every rank, which that run had made before step " +
               std::to_string(*step + 1) +
               ", where this one continues; the epoch of its sampler is " + epoch_text(row) +
               ", and was " + epoch_text(other) +
               " then: call set_epoch with the epoch of the whole training"});
    }
  }
  if (compared == 0)
    return {.why_not = "no two whole passes of training that shuffle, one in each run"};
  judgement.compared = counted(compared, "pair") + " of passes";
  return judgement;
}

}  // namespace lockstep::recorded
