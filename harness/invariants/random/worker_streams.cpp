#include "harness/invariants/random/worker_streams.h"

#include "harness/base/text.h"
#include "harness/invariants/rows.h"
#include "harness/recorded/passes.h"

#include <algorithm>
#include <map>
#include <set>

namespace lockstep::recorded {

namespace {

// With what states the workers of each pass began, of a loader's generator that they draw from.
using Begun = std::vector<std::string>;
std::map<std::pair<std::string, std::string>, std::vector<Begun>> begun_in(const RecordedRun& run) {
  std::map<std::pair<std::string, std::string>, std::vector<Begun>> all;  // then by rank
  for (size_t rank = 0; rank < run.ranks.size(); ++rank)
    for (const auto& record : run.ranks[rank].records) {
      const auto* fact = fact_in(record, fact::kWorkerStreams);
      if (!fact) continue;
      const auto streams = fact->values.value("streams", Json::object());
      if (!streams.is_object()) continue;
      for (const auto& [generator, states] : streams.items()) {
        auto& of = all[{fact->text("loader"), generator}];
        of.resize(run.ranks.size());
        of[rank].push_back(states.dump());
      }
    }
  return all;
}

// True if a sample of the loader came out otherwise when it was drawn again.
bool draws_anew(const RecordedRun& run, const std::string& loader) {
  std::map<int64_t, std::string> prints;  // by index
  for (const auto& rank : run.ranks) {
    const auto passes = passes_of(rank);
    const auto found = passes.find(loader);
    if (found == passes.end()) continue;
    for (const auto& pass : found->second)
      for (const auto& batch : pass.batches)
        if (batch.first_index >= 0 &&
            prints.try_emplace(batch.first_index, batch.first_print).first->second !=
                batch.first_print)
          return true;
  }
  return false;
}

// Loaders whose worker processes draw the same numbers on all ranks.
Findings workers_seeded_alike(const RecordedRun& run) {
  std::map<std::string, std::vector<std::vector<std::string>>> seeds;  // by loader and rank
  for (size_t rank = 0; rank < run.ranks.size(); ++rank)
    for (const auto& record : run.ranks[rank].records)
      if (const auto* fact = fact_in(record, fact::kWorkers)) {
        auto& of = seeds[fact->text("loader")];
        of.resize(run.ranks.size());
        of[rank].push_back(fact->text("seed"));
      }
  for (const auto& each : seeds) {
    const auto& loader = each.first;
    const auto& by_rank = each.second;
    const bool is_alike = std::all_of(by_rank.begin(), by_rank.end(),
                                      [&](const auto& is) { return is == by_rank.front(); });
    if (!is_alike || !draws_anew(run, loader)) continue;
    return {{"", "workers_seeded_alike", loader,
             loader + ": its worker processes had the same seed on all ranks in " +
                 counted(by_rank.front().size(), "pass", "passes") +
                 ", and its samples come out otherwise each time: all ranks draw the same "
                 "augmentations, unless each seeds its workers itself"}};
  }
  return {};
}

// Workers that a worker_init_fn seeds without the rank, or without the pass.
Findings seeded_by_themselves(const RecordedRun& run) {
  Findings remarks;
  for (const auto& each : begun_in(run)) {
    const auto& [loader, generator] = each.first;
    const auto& by_rank = each.second;
    const auto passes = by_rank.front().size();
    const std::string which = loader + ": the generators of " + generator +
                              " in its worker processes, which draw from them, began ";
    if (passes > 0 && std::all_of(by_rank.begin(), by_rank.end(),
                                  [&](const auto& is) { return is == by_rank.front(); }))
      remarks.push_back(
          {"",
           "workers_seeded_alike",
           loader,
           which + "with the same states on all ranks in " + counted(passes, "pass", "passes") +
               ": all ranks draw the same augmentations",
           {Cause{"a worker_init_fn that seeds by the worker's number alone, say: "
                  "let the seed be torch.initial_seed() % 2**32, which differs over ranks "
                  "that have seeds of their own, or add the rank"}}});
    const auto repeats = [](const Begun& begun) {
      return begun.size() > 1 && std::set<std::string>(begun.begin(), begun.end()).size() == 1;
    };
    if (std::all_of(by_rank.begin(), by_rank.end(), repeats))
      remarks.push_back(
          {"",
           "workers_restarted",
           loader,
           which + "with the same states in each of " + counted(passes, "pass", "passes") +
               ": every epoch draws the same augmentations",
           {Cause{"a worker_init_fn that seeds by numbers that stay the same: let "
                  "the seed be torch.initial_seed() % 2**32, which PyTorch draws anew for "
                  "each pass"}}});
  }
  return remarks;
}

}  // namespace

Findings worker_streams(const RecordedRun& run) {
  auto remarks = seeded_by_themselves(run);
  return remarks.empty() ? workers_seeded_alike(run) : std::move(remarks);
}

}  // namespace lockstep::recorded
