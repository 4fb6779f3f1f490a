// Judges whether random numbers differ where they should.
#include "harness/base/text.h"
#include "harness/invariants/random/worker_streams.h"
#include "harness/invariants/rows.h"

#include <algorithm>
#include <map>
#include <set>

namespace lockstep::recorded {

namespace {

// True for the generator that dropout draws from.
bool is_of_pytorch(const std::string& generator) {
  return generator != "python" && generator != "numpy";
}

size_t passes_begun(const Rank& rank) {
  return static_cast<size_t>(
      std::count_if(rank.records.begin(), rank.records.end(), [](const Record& record) {
        const auto* fact = std::get_if<Fact>(&record.what);
        return fact && is_loader(fact->name) && fact->values.contains("epoch");
      }));
}

// The states of one generator of the ranks before the forwards of a model.
struct Streams {
  size_t forwards = 0, same = 0;  // of these, with the same state on all ranks
  std::set<uint64_t> states;      // of rank 0's
};

// By model and generator.
std::map<std::pair<std::string, std::string>, Streams> streams_in(const RecordedRun& run) {
  std::map<std::pair<std::string, std::string>, Streams> all;
  for (const auto& row : rows_of(run, role::kRandom)) {
    if (!row.is_whole()) continue;
    const auto& first = *row.by_rank.front();
    for (size_t tensor = 0; tensor < first.values.size(); ++tensor) {
      auto& streams = all[{row.of, first.list->tensors[tensor].name}];
      ++streams.forwards;
      streams.states.insert(first.values[tensor].bits);
      streams.same += std::all_of(row.by_rank.begin(), row.by_rank.end(),
                                  [&](const Digests* is) {
                                    return is->list->tensors == first.list->tensors &&
                                           is->values[tensor].bits == first.values[tensor].bits;
                                  })
                          ? 1
                          : 0;
    }
  }
  return all;
}

std::map<std::string, int64_t> dropouts_by_model(const Rank& rank) {
  std::map<std::string, int64_t> dropouts;
  for (const auto& record : rank.records)
    if (const auto* model = model_in(record))
      dropouts[model->name] = model->whole("dropouts").value_or(0);
  return dropouts;
}

// A rank whose generator is in one state at the begin of every step, though each step draws.
std::optional<Finding> restarted(const RecordedRun& run) {
  constexpr size_t kStepsLeast = 4;
  struct Begins {
    std::set<int> steps;
    std::set<uint64_t> states;
    size_t drew = 0;
  };
  for (const auto& rank : run.ranks) {
    std::map<std::string, Begins> by_model;
    for (const auto& record : rank.records) {
      if (const auto* fact = fact_in(record, fact::kBackward))
        by_model[fact->text("model")].drew += fact->truth("drew") ? 1 : 0;
      const auto* digests = digests_in(record, role::kRandom);
      if (!digests || digests->values.empty()) continue;
      auto& begins = by_model[digests->list->of];
      if (begins.steps.insert(record.at.step).second)
        begins.states.insert(digests->values.front().bits);
    }
    for (const auto& [model, begins] : by_model)
      if (begins.steps.size() >= kStepsLeast && begins.states.size() == 1 &&
          begins.drew >= begins.steps.size())
        return Finding{"",
                       "restarted_stream",
                       model,
                       "rank " + std::to_string(rank.number) + ": " + model +
                           " has dropout, and the random generator was in one state as each of " +
                           counted(begins.steps.size(), "step") +
                           " began: every step drops the same units",
                       {Cause{"a seed that is set within the loop: set it once, before"}}};
  }
  return {};
}

std::string same_stream_text(const std::string& model, const std::string& generator,
                             size_t forwards, bool drops) {
  const std::string whose = is_of_pytorch(generator) ? "" : " of " + generator;
  const auto when = model == "the program"
                        ? "as each of " + counted(forwards, "backward") + " of the program began"
                        : (drops ? model + " has dropout, and before" : std::string("before")) +
                              " each of " + counted(forwards, "forward") +
                              (drops ? "" : " of " + model);
  return when + " the random generators" + whose + " of all ranks were in the same state" +
         (drops ? ": all ranks drop the same units"
                : ", and random numbers are drawn between them, for noise or augmentation "
                  "say: all ranks draw the same ones");
}

}  // namespace

Judgement random_streams_differ(const RecordedRun& run) {
  if (run.ranks.size() == 1) return {.why_not = "one rank alone"};
  auto dropouts = dropouts_by_model(run.ranks.front());
  auto all = streams_in(run);
  // A loader draws a seed as a pass begins.
  const auto passes = passes_begun(run.ranks.front());
  const auto drops = [&](const auto& key) {
    return is_of_pytorch(key.second) && dropouts[key.first] > 0;
  };
  std::erase_if(all, [&](const auto& each) {
    const auto states = each.second.states.size();  // few: an order is drawn, say, and split
    return !drops(each.first) && (states <= passes + 1 || 2 * states <= each.second.forwards);
  });
  Judgement judgement{.remarks = worker_streams(run)};
  if (auto finding = restarted(run)) judgement.findings.push_back(std::move(*finding));
  size_t forwards = 0;
  for (const auto& [key, streams] : all) {
    forwards += streams.forwards;
    if (streams.same < streams.forwards || (!drops(key) && !judgement.remarks.empty())) continue;
    // True, and what the most used trainers do on purpose.
    judgement.remarks.push_back(
        {"", "same_random_stream", key.first,
         same_stream_text(key.first, key.second, streams.forwards, drops(key))});
  }
  if (forwards == 0)
    judgement.why_not = "no model has dropout";
  else
    judgement.compared = counted(forwards, "forward");
  return judgement;
}

}  // namespace lockstep::recorded
