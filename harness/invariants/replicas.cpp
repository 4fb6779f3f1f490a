// Judges whether the replicas stay the same: parameters, optimizers, buffers.
#include "harness/base/text.h"
#include "harness/invariants/at_wrapping.h"
#include "harness/invariants/local_updates.h"
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
      const auto* fact = std::get_if<Fact>(&record.what);
      if (!fact || !fact->name.starts_with("optimizer ")) continue;
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

// The fields of an optimizer's groups as "lr of group 0" -> text.
std::map<std::string, std::string> settings_of(const Fact& fact) {
  std::map<std::string, std::string> settings{{"the kind", fact.text("kind")}};
  const auto groups = fact.values.find("groups");
  if (groups == fact.values.end() || !groups->is_array()) return settings;
  for (size_t number = 0; number < groups->size(); ++number)
    if ((*groups)[number].is_object())
      for (const auto& [name, value] : (*groups)[number].items())
        settings[one_line(name) + " of group " + std::to_string(number)] = excerpt(value.dump());
  return settings;
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
  for (const auto& [name, texts] : by_name)
    if (!all_alike(texts))
      return Finding{"", agreement_pattern(texts),
                     "step " + std::to_string(row.at.step) + ", update",
                     name + " of " + row.name + ": " + values_text(texts)};
  return {};
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
      judgement.findings.push_back(std::move(*finding));
      judgement.at = row.at;
      break;
    }
  }
  if (compared == 0 && judgement.findings.empty())
    return {.why_not = any_whole ? "not judged: the " + std::string(role) +
                                       " is divided over the ranks, each part on one"
                                 : "no " + std::string(role) + " was recorded on all ranks"};
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

// A rank that came to the row's moment would have recorded parameters that changed there.
bool came_to(const Rank& rank, const Moment& at) {
  return rank.history.last.step > at.step;
}

// Parameters change in a forward where a program loads, swaps or moves them. A rank records them
// then, and else has those that it recorded last.
class Replicas {
 public:
  explicit Replicas(const RecordedRun& run)
      : run_(run), rows_(rows_of(run, "parameters")), averaged_(averaged_between_updates(run)) {}

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
            {"", "averaged_between_updates", place_of(row),
             "parameters of " + row.of +
                 " differ between the ranks after updates, and the program averages them in "
                 "between, as local SGD does: not compared after updates"});
      return;
    }
    if (row.at.phase == "forward" && is_back_after(at)) {
      if (judgement.remarks.empty())
        judgement.remarks.push_back(
            {"", "back_at_the_update", place_of(row),
             "parameters of " + row.of +
                 " differed between the ranks in a forward, and no longer after the update: "
                 "they were swapped or moved for that forward alone"});
      return;
    }
    if (finding->pattern != "other_shape") finding->details += unknown_to_the_wrapper(run_, row);
    judgement.at = row.at;
    judgement.findings.push_back(std::move(*finding));
  }

  std::optional<Finding> difference_in_forward(const Row& row, std::vector<const Digests*> before,
                                               const std::vector<const Digests*>& now) {
    Row filled = row;
    before.resize(now.size(), nullptr);
    for (size_t rank = 0; rank < now.size(); ++rank) {
      if (!row.by_rank[rank] && !came_to(run_.ranks[rank], row.at)) return {};
      filled.by_rank[rank] = now[rank];
    }
    auto finding = difference_in(filled, "parameters of " + row.of);
    if (!finding || row.is_divided()) return finding;
    std::vector<std::string> texts;
    for (size_t rank = 0; rank < now.size(); ++rank)
      texts.push_back(now[rank] && before[rank] && !same_bits(*now[rank], *before[rank])
                          ? "other values than it had"
                          : "the values that it had");
    if (all_alike(texts)) return finding;
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
  const std::vector<Row> rows_;
  const std::map<std::string, Moment> averaged_;
  std::map<std::string, std::vector<const Digests*>> last_;  // by model
  size_t compared_ = 0;
};

}  // namespace

Judgement parameters_are_the_same(const RecordedRun& run) {
  if (run.ranks.size() == 1) return {.why_not = "one rank alone"};
  if (trains_in_stages(run)) return {.why_not = kTrainsInStages};
  Replicas replicas(run);
  auto judgement = replicas.judgement();
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

Judgement hyper_parameters_are_the_same(const RecordedRun& run) {
  if (run.ranks.size() == 1) return {.why_not = "one rank alone"};
  const auto rows = optimizer_rows(run);
  Judgement judgement;
  size_t compared = 0;
  for (const auto& row : rows) {
    compared +=
        std::all_of(row.by_rank.begin(), row.by_rank.end(), [](const Fact* fact) { return fact; })
            ? 1
            : 0;
    if (auto finding = other_settings(row)) {
      judgement.findings.push_back(std::move(*finding));
      judgement.at = row.at;
      break;
    }
  }
  if (compared == 0) return {.why_not = "no optimizer made a step on all ranks"};
  judgement.compared = counted(compared, "update");
  return judgement;
}

Judgement optimizer_state_is_the_same(const RecordedRun& run) {
  auto rows = rows_of(run, "state");
  for (auto& row : rows)
    if (!row.is_divided() && row.is_whole() && is_divided_by_names(row))
      row.shards.resize(row.by_rank.size(), std::make_shared<Shards>());
  auto judgement = all_the_same(run, "state", rows);
  if (judgement.findings.empty()) return judgement;
  if (!averaged_between_updates(run).empty())
    return {.why_not = "not judged: the ranks update on their own between averages of parameters"};
  if (trains_in_stages(run)) return {.why_not = kTrainsInStages};
  const bool has_one_setting = hyper_parameters_are_the_same(run).findings.empty();
  if (has_one_setting && took_the_same(run, judgement.at->step))
    judgement.at->phase = "forward";  // It was another one before the update.
  return judgement;
}

Judgement buffers_follow_rank_zero(const RecordedRun& run) {
  auto judgement = all_the_same(run, "buffers", rows_of(run, "buffers"));
  if (!judgement.why_not.empty() && run.ranks.size() > 1)
    judgement.why_not = "no forward broadcast buffers";
  return judgement;
}

}  // namespace lockstep::recorded
