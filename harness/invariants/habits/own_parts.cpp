#include "harness/invariants/habits/own_parts.h"

#include "harness/base/text.h"
#include "harness/invariants/local_updates.h"
#include "harness/invariants/unwrapped.h"
#include "harness/verdict/trace.h"

#include <algorithm>

namespace lockstep::recorded {

namespace {

// The elements of a rank's optimizers that no model has, and those that it reduces with others and
// sends, by step with an update.
struct Part {
  int64_t updated = 0;
  std::map<int, int64_t> reduced, sent;
};

// Where the ranks' optimizers have other tensors.
enum class Unlike { kNothing, kShapes, kValues };

// True if the rank sends what it updated.
bool sends(const Rank& rank, const Event& event, const Collective& is) {
  const bool gathers = is.op.ends_with("allgather") || is.op == "_allgather_base";
  return event.at.phase == phase::kUpdate &&
         (gathers || (is.op == "broadcast" && is.root == rank.number));
}

Part part_of(const Rank& rank, Unlike unlike) {
  Part part;
  std::map<std::string, int64_t> updated;
  for (const auto& record : rank.records) {
    if (const auto* fact = optimizer_in(record))
      part.sent[record.at.step] = part.reduced[record.at.step] = 0;
    const auto* is = std::get_if<Digests>(&record.what);
    if (is && is->list->role == role::kParameters && is_optimizer(is->list->of))
      updated[is->list->of] = elements_in(*is);
  }
  for (const auto& [of, elements] : updated) part.updated += elements;
  for (const auto& event : rank.history.events) {
    const auto* is = std::get_if<Collective>(&event.what);
    const auto found = part.sent.find(event.at.step);
    if (!is || found == part.sent.end()) continue;
    if (is->op.find("reduce") != std::string::npos) part.reduced[event.at.step] += is->elements;
    // A gather of tensors of one shape may be an average of what the ranks hold.
    if (sends(rank, event, *is) && (is->op == "broadcast" || unlike == Unlike::kShapes))
      found->second += is->elements;
  }
  return part;
}

bool sends_all(const Part& part) {
  return !part.sent.empty() && part.updated > 0 &&
         std::all_of(part.sent.begin(), part.sent.end(),
                     [&](const auto& step) { return step.second >= part.updated; });
}

bool reduces_all(const Part& part) {
  return std::all_of(part.reduced.begin(), part.reduced.end(),
                     [&](const auto& step) { return step.second >= part.updated; });
}

// True if at some time all ranks have the same values in optimizers of unlike ones: then they train
// one model, and what all but one rank trained is lost.
bool become_the_same(const RecordedRun& run) {
  std::map<std::string, std::vector<const Digests*>> last;
  for (const auto& row : rows_of(run, role::kParameters)) {
    if (!is_optimizer(row.of)) continue;
    auto& held = last[row.of];
    keep_latest(row, held);
    if (row.at.phase == phase::kForward && all_hold_the_same(held)) return true;
  }
  return false;
}

// Compares optimizers of whose parameters no model is known.
Unlike unlike_tensors(const RecordedRun& run) {
  for (const auto& rank : run.ranks)
    if (std::any_of(rank.records.begin(), rank.records.end(),
                    [](const Record& record) { return model_in(record); }))
      return Unlike::kNothing;
  for (const auto& row : rows_of(run, role::kParameters)) {
    if (row.at.phase != phase::kConstruction || !is_optimizer(row.of)) continue;
    if (const auto difference = row.is_whole() ? difference_in(row, "") : std::nullopt)
      return difference->pattern == "other_shape" ? Unlike::kShapes : Unlike::kValues;
  }
  return Unlike::kNothing;
}

int64_t sent_in(const Rank& rank, int step) {
  int64_t sent = 0;
  for (const auto& event : rank.history.events)
    if (const auto* is = std::get_if<Collective>(&event.what);
        is && event.at.step == step && sends(rank, event, *is))
      sent += is->elements;
  return sent;
}

}  // namespace

bool updates_own_parts(const RecordedRun& run) {
  const auto unlike = unlike_tensors(run);
  return unlike != Unlike::kNothing && !become_the_same(run) &&
         std::all_of(run.ranks.begin(), run.ranks.end(), [&](const Rank& rank) {
           const auto part = part_of(rank, unlike);
           return sends_all(part) && reduces_all(part);
         });
}

Details unsent_parts(const RecordedRun& run) {
  const auto unlike = unlike_tensors(run);
  if (unlike == Unlike::kNothing) return {};
  const auto senders = std::count_if(run.ranks.begin(), run.ranks.end(), [&](const Rank& rank) {
    const auto part = part_of(rank, unlike);
    return std::any_of(part.sent.begin(), part.sent.end(),
                       [](const auto& step) { return step.second > 0; });
  });
  // Where one rank alone sends, ranks that began unlike may have the same parameters.
  if (senders < (unlike == Unlike::kShapes ? 1 : 2)) return {};
  for (const auto& rank : run.ranks) {
    const auto part = part_of(rank, unlike);
    if (sends_all(part)) continue;
    const auto step = std::find_if(part.sent.begin(), part.sent.end(),
                                   [&](const auto& each) { return each.second < part.updated; });
    if (step == part.sent.end()) continue;
    return {Cause{
        "the optimizers of the ranks have other parameters, and in step " +
        std::to_string(step->first) + " rank " + std::to_string(rank.number) + " updates " +
        with_commas(part.updated) + " elements and is the source of " + with_commas(step->second) +
        ": each part must be sent by the rank that updates it, whole, after each update"}};
  }
  return {};
}

void LostUpdates::look(const Row& update, std::vector<const Digests*> before, const Row& forward) {
  before.resize(update.by_rank.size(), nullptr);
  std::vector<int64_t> alone(update.by_rank.size(), 0);  // elements that a rank alone updates
  const auto& first = *update.by_rank.front();
  const auto bits_of = [](const Digests* is, size_t tensor) { return is->values[tensor].bits; };
  for (size_t tensor = 0; tensor < first.values.size(); ++tensor) {
    size_t changed = 0, lost = 0, changer = 0;
    for (size_t rank = 0; rank < update.by_rank.size(); ++rank) {
      const auto *had = before[rank], *has = update.by_rank[rank], *next = forward.by_rank[rank];
      if (!had || !has || !next || had->values.size() != first.values.size() ||
          has->values.size() != first.values.size() || next->values.size() != first.values.size())
        return;
      if (bits_of(has, tensor) != bits_of(had, tensor)) {
        ++changed;
        changer = rank;
      }
      lost += bits_of(next, tensor) == bits_of(had, tensor) ? 1 : 0;
    }
    const Lost key{update.of, first.list->tensors[tensor].name};
    if (changed == 0) continue;
    if (changed == 1) alone[changer] += count_of(first.list->tensors[tensor].shape);
    if (lost < update.by_rank.size()) {
      kept_.insert(key);
    } else if (changed < update.by_rank.size()) {
      if (lost_.empty()) at_ = forward.at;
      ++lost_[key];
    }
  }
  for (size_t rank = 0; rank < alone.size() && !sends_less_; ++rank)
    sends_less_ = alone[rank] > 0 && sent_in(run_.ranks[rank], update.at.step) < alone[rank];
}

std::optional<Finding> LostUpdates::finding() const {
  constexpr size_t kTimesLeast = 2;
  std::vector<std::string> names;
  std::string of;
  for (const auto& [key, times] : lost_)
    if (times >= kTimesLeast && !kept_.contains(key)) {
      of = key.of;
      names.push_back(key.name);
    }
  const bool any_kept =
      std::any_of(kept_.begin(), kept_.end(), [&](const Lost& kept) { return kept.of == of; });
  if (names.empty() || !any_kept || !sends_less_) return {};
  return Finding{
      "",
      "update_lost",
      "step " + std::to_string(at_.step) + ", " + at_.phase,
      "some ranks update " + excerpt(joined(names, ", ")) + " of " + of +
          ", and in each forward that follows all ranks have them as they were before",
      {Cause{"what another rank sends, which does not update them, takes the place of "
             "what their owner updated: each part must be sent by the rank that updates it"}}};
}

}  // namespace lockstep::recorded
