#include "harness/invariants/habits/local_rounds.h"

#include "harness/base/text.h"
#include "harness/invariants/data/uneven_batches.h"
#include "harness/invariants/endings.h"
#include "harness/invariants/local_updates.h"
#include "harness/invariants/unwrapped.h"
#include "harness/recorded/passes.h"
#include "harness/verdict/ladders.h"
#include "harness/verdict/trace.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

namespace lockstep::recorded {

namespace {

constexpr int kMost = 1 << 29;  // updates of a run

// The updates that a rank made before each collective of all ranks.
std::vector<int> updates_before_collectives(const Rank& rank) {
  std::vector<int> updates;
  for (const auto& event : rank.history.events) {
    const auto* is = std::get_if<Collective>(&event.what);
    if (is && is->group == kWorld && !is_point_to_point(is->op))
      updates.push_back(std::min(event.at.step, kMost) +
                        (event.at.phase == phase::kUpdate ? 1 : 0));
  }
  return updates;
}

size_t batches_in(const Rank& rank) {
  size_t count = 0;
  for (const auto& [source, passes] : passes_of(rank))
    for (const auto& pass : passes) count += pass.batch_count();
  return count;
}

// True if ranks make more updates than others where they have more batches: not so where a rank
// steps twice, or leaves a step out. Without loaders nothing says so.
bool update_by_batches(const RecordedRun& run) {
  std::vector<std::pair<size_t, size_t>> ranks;  // updates and batches
  for (const auto& rank : run.ranks) ranks.emplace_back(updates_of(rank), batches_in(rank));
  if (std::all_of(ranks.begin(), ranks.end(), [](const auto& is) { return is.second == 0; }))
    return true;
  std::sort(ranks.begin(), ranks.end());
  return std::adjacent_find(ranks.begin(), ranks.end(), [](const auto& a, const auto& b) {
           return a.first < b.first && a.second >= b.second;
         }) == ranks.end();
}

// By rank the updates that it had made where each round ended. Collectives that no update of any
// rank parts end one round.
std::optional<std::vector<std::vector<int>>> ends_of_rounds(const RecordedRun& run) {
  std::vector<std::vector<int>> before;
  for (const auto& rank : run.ranks) before.push_back(updates_before_collectives(rank));
  std::vector<std::vector<int>> ends(run.ranks.size());
  for (size_t number = 0; number < before.front().size(); ++number) {
    bool is_new = number == 0;
    for (const auto& updates : before) {
      if (updates.size() != before.front().size()) return {};
      is_new = is_new || updates[number] != updates[number - 1];
    }
    for (size_t rank = 0; is_new && rank < before.size(); ++rank)
      ends[rank].push_back(before[rank][number]);
  }
  return ends;
}

// A round of one rank: its updates from one step on, and how many of them are kept.
struct Round {
  int from = 0, updates = 0, kept = 0, new_from = 0;
};

// Empty where all ranks make as many updates in each round, or some rank none.
std::vector<std::vector<Round>> rounds_of(const std::vector<std::vector<int>>& ends) {
  std::vector<std::vector<Round>> rounds(ends.size());
  std::vector<int> from(ends.size(), 0);
  int new_from = 0;
  bool any_unlike = false;
  for (size_t number = 0; number < ends.front().size(); ++number) {
    std::vector<int> counts;
    for (size_t rank = 0; rank < ends.size(); ++rank)
      counts.push_back(ends[rank][number] - from[rank]);
    const auto [least, most] = std::minmax_element(counts.begin(), counts.end());
    if (*least < 0 || (*least == 0 && *most > 0)) return {};
    any_unlike = any_unlike || *least != *most;
    for (size_t rank = 0; rank < ends.size(); ++rank) {
      rounds[rank].push_back({from[rank], counts[rank], *least, new_from});
      from[rank] = ends[rank][number];
    }
    new_from += *least;
  }
  for (size_t rank = 0; rank < ends.size(); ++rank)
    rounds[rank].push_back({from[rank], kMost, kMost, new_from});  // what follows the last
  return any_unlike ? rounds : std::vector<std::vector<Round>>();
}

class Aligning {
 public:
  Aligning(Rank& rank, const std::vector<Round>& rounds) : rank_(rank), rounds_(rounds) {}

  void align() {
    std::erase_if(rank_.records, [&](const Record& record) {
      return is_left_out(record.at.step) && is_of_an_update(record);
    });
    for (auto& record : rank_.records) renumber(record.at);
    for (auto& event : rank_.history.events) renumber(event.at);
    renumber(rank_.history.last);
  }

 private:
  const Round& round_of(int step) const {
    auto found = rounds_.end() - 1;
    while (found != rounds_.begin() && (found->from > step || found->updates == 0)) --found;
    return *found;
  }

  bool is_left_out(int step) const {
    const auto& round = round_of(step);
    return step - round.from >= round.kept;
  }

  void renumber(Moment& at) const {
    const auto& round = round_of(at.step);
    const int within = std::min(std::min(at.step, kMost) - round.from, round.kept - 1);
    at.step = round.new_from + std::max(0, within);
  }

  // Leaves what loaders dealt in the run: a rank's part of the data is as long as it is.
  static bool is_of_an_update(const Record& record) {
    if (const auto* is = std::get_if<Digests>(&record.what)) return is->list->role != role::kRandom;
    const auto* fact = std::get_if<Fact>(&record.what);
    static const std::set<std::string> kNames{
        "terms",    "clip",    "backward",      "part",
        "unwaited", "skipped", "own gradients", "averaged gradients"};
    return fact && (is_optimizer(fact->name) || kNames.contains(fact->name));
  }

  Rank& rank_;
  const std::vector<Round>& rounds_;
};

using Place = std::tuple<std::string, int>;  // a list's owner, and a step

// A recorder digests a large model in some steps, which are others on ranks with more updates:
// leaves out those of some ranks alone.
void leave_out_unshared_digests(RecordedRun& run) {
  std::vector<std::set<Place>> updated(run.ranks.size());
  for (size_t rank = 0; rank < run.ranks.size(); ++rank)
    for (const auto& record : run.ranks[rank].records)
      if (const auto* is = digests_in(record, role::kParameters);
          is && record.at.phase == phase::kUpdate)
        updated[rank].emplace(is->list->of, record.at.step);
  for (auto& rank : run.ranks)
    std::erase_if(rank.records, [&](const Record& record) {
      const auto* is = std::get_if<Digests>(&record.what);
      if (!is || record.at.phase == phase::kConstruction) return false;
      const Place place{is->list->of, record.at.step};
      const auto count = std::count_if(updated.begin(), updated.end(),
                                       [&](const auto& each) { return each.contains(place); });
      return count > 0 && count < static_cast<std::ptrdiff_t>(updated.size());
    });
}

// `run` has them aligned.
Finding unlike_rounds(const RecordedRun& run, const std::vector<std::vector<Round>>& by_rank) {
  std::vector<std::string> most;
  int64_t left_out = 0;
  for (const auto& rounds : by_rank) {
    int updates = 0;
    for (size_t number = 0; number + 1 < rounds.size(); ++number) {
      left_out += rounds[number].updates - rounds[number].kept;
      updates = std::max(updates, rounds[number].updates);
    }
    most.push_back(std::to_string(updates));
  }
  return {"", "unlike_rounds", "between averages of the parameters",
          "the ranks make unlike numbers of updates between collectives of all ranks, at most: " +
              values_text(most) +
              ". Compared are as many of each round as the rank with fewest makes, and steps are "
              "numbered without the " +
              counted(left_out, "update") +
              " that are left out. An average that counts each rank alike gives samples of a rank "
              "with fewer more weight",
          uneven_batches(run)};
}

int64_t elements_trained(const Rank& rank) {
  int64_t most = 0;
  for (const auto& record : rank.records)
    if (const auto* is = digests_in(record, role::kParameters))
      most = std::max(most, elements_in(*is));
  return most;
}

// True if the rank may average parameters in rounds of its own updates.
bool may_average_rounds(const Rank& rank) {
  return !wraps_a_model(rank) && rank.joins.empty() &&
         2 * elements_averaged(rank) >= elements_trained(rank);
}

// True if updates took other gradients than backwards left, which the program averaged then.
bool takes_averaged_gradients(const Rank& rank) {
  std::map<std::string, Json> own;  // by whose gradients they are
  for (const auto& record : rank.records) {
    const auto* fact = std::get_if<Fact>(&record.what);
    if (!fact || !fact->values.contains("tensors")) continue;
    const auto& tensors = fact->values.at("tensors");
    if (fact->name == fact::kOwnGradients) own[fact->text("of")] = tensors;
    if (fact->name != fact::kAveragedGradients) continue;
    if (const auto found = own.find(fact->text("of"));
        found != own.end() && found->second != tensors)
      return true;
  }
  return false;
}

}  // namespace

bool updates_in_turns(const RecordedRun& run) {
  if (!std::all_of(run.ranks.begin(), run.ranks.end(), may_average_rounds)) return false;
  const auto ends = ends_of_rounds(run);
  if (!ends || !takes_own_gradients(run) ||
      std::any_of(run.ranks.begin(), run.ranks.end(), takes_averaged_gradients))
    return false;
  std::set<size_t> idle, active;
  for (size_t number = 0; number < ends->front().size(); ++number) {
    std::set<size_t> idle_here, active_here;
    for (size_t rank = 0; rank < ends->size(); ++rank) {
      const int before = number == 0 ? 0 : (*ends)[rank][number - 1];
      ((*ends)[rank][number] == before ? idle_here : active_here).insert(rank);
    }
    active.insert(active_here.begin(), active_here.end());
    if (!active_here.empty()) idle.insert(idle_here.begin(), idle_here.end());
  }
  return std::count_if(idle.begin(), idle.end(),
                       [&](size_t rank) { return active.contains(rank); }) > 1;
}

std::optional<View> with_rounds_aligned(const RecordedRun& run) {
  for (const auto& rank : run.ranks)
    if (!may_average_rounds(rank) || updates_of(rank) == 0) return {};
  const auto ends = ends_of_rounds(run);
  if (!ends || ends->front().empty()) return {};
  const auto rounds = rounds_of(*ends);
  if (rounds.empty() || !update_by_batches(run)) return {};
  auto aligned = run;
  for (size_t rank = 0; rank < aligned.ranks.size(); ++rank)
    Aligning(aligned.ranks[rank], rounds[rank]).align();
  leave_out_unshared_digests(aligned);
  if (averaged_between_updates(aligned).empty()) return {};
  auto remark = unlike_rounds(aligned, rounds);
  return View{std::move(aligned), {std::move(remark)}};
}

}  // namespace lockstep::recorded
