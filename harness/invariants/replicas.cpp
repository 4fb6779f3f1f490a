// Judges whether the replicas stay the same: parameters, optimizers, buffers.
#include "harness/base/text.h"
#include "harness/invariants/habits/local_rounds.h"
#include "harness/invariants/habits/not_data_parallel.h"
#include "harness/invariants/habits/own_buffers.h"
#include "harness/invariants/habits/populations.h"
#include "harness/invariants/local_updates.h"
#include "harness/invariants/optimizers/own_metrics.h"
#include "harness/invariants/optimizers/settings.h"
#include "harness/invariants/unwrapped.h"

#include <algorithm>
#include <map>
#include <set>

namespace lockstep::recorded {

namespace {

// A fact of the same name at the same moment on the ranks; null where a rank has none.
struct FactRow {
  Moment at;
  std::string name;
  std::vector<const Fact*> by_rank;
};

std::vector<FactRow> optimizer_rows(const RecordedRun& run) {
  std::map<std::pair<Moment, std::string>, size_t> known;
  std::vector<FactRow> rows;
  for (size_t rank = 0; rank < run.ranks.size(); ++rank)
    for (const auto& record : run.ranks[rank].records) {
      const auto* fact = optimizer_in(record);
      if (!fact) continue;
      const auto [found, is_new] = known.try_emplace({record.at, fact->name}, rows.size());
      if (is_new)
        rows.push_back(
            {record.at, fact->name, std::vector<const Fact*>(run.ranks.size(), nullptr)});
      rows[found->second].by_rank[rank] = fact;
    }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto& a, const auto& b) { return a.at.step < b.at.step; });
  return rows;
}

// The sizes of groups in which the ranks have the same parameters otherwise.
std::optional<Finding> other_groups(const FactRow& row, const std::string& place) {
  std::vector<std::string> sizes;
  auto first = owned_in(*row.by_rank.front());
  std::sort(first.begin(), first.end());
  for (const auto* fact : row.by_rank) {
    auto owned = owned_in(*fact);
    std::sort(owned.begin(), owned.end());
    const auto found = fact->values.find("sizes");
    if (owned != first || found == fact->values.end()) return {};
    sizes.push_back(excerpt(found->dump()));
  }
  if (all_alike(sizes)) return {};
  return Finding{"", "other_groups", place,
                 "how many parameters each group of " + row.name + " has: " + values_text(sizes)};
}

std::optional<Finding> other_settings(const FactRow& row) {
  std::map<std::string, std::vector<std::string>> by_name;
  for (size_t rank = 0; rank < row.by_rank.size(); ++rank) {
    if (!row.by_rank[rank]) return {};
    for (const auto& [name, text] : settings_of(*row.by_rank[rank])) {
      auto& texts = by_name[name];
      texts.resize(row.by_rank.size(), "none");
      texts[rank] = text;
    }
  }
  const auto place = "step " + std::to_string(row.at.step) + ", update";
  // A scheduler copies lr to initial_lr.
  for (const bool is_copied : {false, true})
    for (const auto& [name, texts] : by_name)
      if (name.starts_with("initial_") == is_copied && !all_alike(texts))
        return Finding{.rule = "",
                       .pattern = agreement_pattern(texts),
                       .where = place,
                       .diagnosis = name + " of " + row.name + ": " + values_text(texts),
                       .cause =
                           "it is computed from the rank, or changed under a condition that "
                           "differs by rank, as a scheduler's step"};
  return other_groups(row, place);
}

// The first moment at which ranks differ in a row of one role.
Judgement all_the_same(const RecordedRun& run, std::string_view role,
                       const std::vector<Row>& rows) {
  if (run.ranks.size() == 1) return {.why_not = "one rank alone"};
  if (rows.empty()) return {.why_not = "no rank recorded " + std::string(role)};
  Judgement judgement;
  size_t compared = 0;
  bool any_whole = false;
  for (const auto& row : rows) {
    any_whole = any_whole || row.is_whole();
    compared += row.is_whole() && (has_comparison(row) || !row.is_divided()) ? 1 : 0;
    if (auto finding = difference_in(row, std::string(role) + " of " + row.of)) {
      judgement.add(Found{std::move(*finding), row.at});
      break;
    }
  }
  if (compared == 0 && judgement.findings.empty())
    return any_whole
               ? not_covered("the " + std::string(role) +
                             " is divided over the ranks, each part on one")
               : Judgement{.why_not = "no " + std::string(role) + " was recorded on all ranks"};
  judgement.compared = counted(compared, "time");
  return judgement;
}

std::set<std::string> names_in(const Digests* digests) {
  std::set<std::string> names;
  if (digests)
    for (const auto& tensor : digests->list->tensors) names.insert(tensor.name);
  return names;
}

// True where several ranks have tensors that no other rank has: an optimizer that divides its state
// over the ranks. Where one rank alone has more than the others, they lack it.
bool is_divided_by_names(const Row& row) {
  std::map<std::string, size_t> holders;
  for (const auto* digests : row.by_rank)
    for (const auto& name : names_in(digests)) ++holders[name];
  size_t with_own = 0;
  for (const auto* digests : row.by_rank) {
    const auto names = names_in(digests);
    with_own += std::any_of(names.begin(), names.end(),
                            [&](const auto& name) { return holders[name] == 1; })
                    ? 1
                    : 0;
  }
  return with_own > 1;
}

// True if the update of a step took gradients that are known, and the same on all ranks.
bool took_the_same(const RecordedRun& run, int step) {
  std::map<std::string, Row> last;  // by model
  for (const char* role : {"gradients", "taken"})
    for (const auto& row : rows_of(run, role))
      if (row.at.step == step) last.insert_or_assign(row.of, row);
  return !last.empty() && std::all_of(last.begin(), last.end(), [](const auto& is) {
    return is.second.is_whole() && !difference_in(is.second, "");
  });
}

// True if all ranks hold the same parameters behind an update in which they sent each other
// tensors: each may have updated a part, for which it alone keeps the state.
bool sent_within_the_update(const RecordedRun& run, int step) {
  bool any_row = false;
  for (const auto& row : rows_of(run, role::kParameters))
    if (row.at.step == step && row.at.phase == phase::kUpdate) {
      if (!row.is_whole() || difference_in(row, "")) return false;
      any_row = true;
    }
  return any_row && std::ranges::all_of(run.ranks, [&](const Rank& rank) {
           return std::ranges::any_of(rank.history.events, [&](const Event& event) {
             const auto* is = std::get_if<Collective>(&event.what);
             return is && event.at.step == step && event.at.phase == phase::kUpdate &&
                    is->elements > 1 && !is->op.starts_with("ddp_");
           });
         });
}

// True if the program sent tensors of so many elements in a step or later.
bool sent_later(const RecordedRun& run, int step, int64_t elements) {
  for (const auto& rank : run.ranks)
    for (const auto& event : rank.history.events)
      if (const auto* is = std::get_if<Collective>(&event.what);
          is && event.at.step >= step && !is->op.starts_with("ddp_") && is->elements >= elements)
        return true;
  return false;
}

// The statistics of an average of weights, which each rank took from its own part of the data and
// sent nobody.
std::optional<Finding> statistics_of_own_part(const RecordedRun& run) {
  for (const auto& row : rows_of(run, role::kStatistics)) {
    auto finding = difference_in(row, "the buffers that update_bn() left in " + row.of);
    if (!finding || !row.is_whole() || finding->pattern == "other_shape") continue;
    int64_t least = 0;
    for (const auto& tensor : row.by_rank.front()->list->tensors)
      if (const auto size = static_cast<int64_t>(count_of(tensor.shape));
          size > 1 && (least == 0 || size < least))
        least = size;
    if (sent_later(run, row.at.step, std::max<int64_t>(least, 1))) continue;
    finding->pattern = "statistics_of_own_part";
    finding->details.push_back(
        "each rank took the statistics of its own part of the data: evaluate and save one rank's, "
        "give update_bn() a loader of all the data, or average the buffers over the ranks");
    return finding;
  }
  return {};
}

}  // namespace

Judgement hyper_parameters_are_the_same(const RecordedRun& run) {
  if (run.ranks.size() == 1) return {.why_not = "one rank alone"};
  if (trains_a_population(run) || updates_in_turns(run)) return not_covered(not_data_parallel(run));
  const auto rows = optimizer_rows(run);
  Judgement judgement;
  size_t compared = 0;
  for (const auto& row : rows) {
    compared +=
        std::all_of(row.by_rank.begin(), row.by_rank.end(), [](const Fact* fact) { return fact; })
            ? 1
            : 0;
    if (auto finding = other_settings(row)) {
      judgement.add(Found{std::move(*finding), row.at});
      break;
    }
  }
  if (compared == 0) return {.why_not = "no optimizer made a step on all ranks"};
  if (auto own = own_metrics(run); own && averaged_between_updates(run).empty()) {
    if (judgement.findings.empty())
      judgement.remarks.push_back(std::move(*own));
    else
      judgement.findings.front().details += std::move(own->details);
  }
  judgement.compared = counted(compared, "update");
  return judgement;
}

Judgement optimizer_state_is_the_same(const RecordedRun& run) {
  auto rows = rows_of(run, role::kState);
  for (auto& row : rows)
    if (!row.is_divided() && row.is_whole() && is_divided_by_names(row))
      row.shards.resize(row.by_rank.size(), std::make_shared<Shards>());
  auto judgement = all_the_same(run, role::kState, rows);
  if (judgement.findings.empty()) return judgement;
  if (!averaged_between_updates(run).empty())
    return not_covered("the ranks update on their own between averages of parameters");
  if (const auto* why = not_data_parallel(run)) return not_covered(why);
  // A state that parts later was another one before, such as rank 0's that all ranks loaded.
  const bool parts_at_first = rows.front().at.step == judgement.at->step;
  if (parts_at_first && sent_within_the_update(run, judgement.at->step)) {
    auto remark = std::move(judgement.findings.front());
    remark.pattern = "state_of_own_part";
    remark.diagnosis +=
        ", and the parameters are the same behind that update, in which the ranks sent tensors: "
        "each keeps the state of the part that it updates for all, or one sends all";
    return {.compared = judgement.compared, .remarks = {std::move(remark)}};
  }
  const bool has_one_setting = hyper_parameters_are_the_same(run).findings.empty();
  if (has_one_setting && took_the_same(run, judgement.at->step))
    judgement.at->phase = "forward";  // It was another one before the update.
  return judgement;
}

Judgement buffers_follow_rank_zero(const RecordedRun& run) {
  auto judgement = all_the_same(run, role::kBuffers, rows_of(run, role::kBuffers));
  if (!judgement.why_not.empty() && run.ranks.size() > 1)
    judgement.why_not = "no forward broadcast buffers";
  if (run.ranks.size() > 1)
    for (auto own : {statistics_of_own_part(run), own_buffers(run)})
      if (own) judgement.remarks.push_back(std::move(*own));
  for (const auto& row : rows_of(run, role::kWritten)) {
    auto finding = difference_in(row, "before the broadcast of rank 0's, the buffers of " + row.of);
    if (!finding) continue;
    finding->pattern = "written_on_each_rank";
    finding->details.push_back(
        "the broadcast before each forward replaces what other ranks wrote, such as keys of a "
        "queue, by what rank 0 did: gather what all ranks have before it is written, or register "
        "no buffer");
    judgement.remarks.push_back(std::move(*finding));
    break;
  }
  return judgement;
}

}  // namespace lockstep::recorded
