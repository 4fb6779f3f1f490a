#include "harness/invariants/unwrapped.h"

#include "harness/base/dtype.h"
#include "harness/base/text.h"
#include "harness/invariants/at_wrapping.h"
#include "harness/invariants/endings.h"
#include "harness/invariants/local_updates.h"
#include "harness/recorded/passes.h"
#include "harness/verdict/trace.h"

#include <algorithm>
#include <map>
#include <set>

namespace lockstep::recorded {

int64_t elements_in(const Digests& digests) {
  int64_t count = 0;
  for (size_t number = 0; number < digests.values.size(); ++number) {
    const auto& tensor = digests.list->tensors[number];
    const auto bytes = tensor_bytes(tensor.dtype, tensor.shape);
    if (bytes > 0 && !digests.values[number].is_missing())
      count += bytes / traits_of(tensor.dtype).bytes;
  }
  return count;
}

namespace {

// The tensors that a rank trains without a wrapper: those of an optimizer, or of a model that is
// watched.
struct Unwrapped {
  int64_t elements = 0;
  int64_t gradients = 0;  // elements of those of the update that took fewest
};
std::map<std::string, Unwrapped> unwrapped_in(const Rank& rank) {
  std::map<std::string, Unwrapped> all;
  std::set<std::string> watched;
  for (const auto& record : rank.records) {
    if (const auto* model = model_in(record); model && model->text("wrapper") == "watched")
      watched.insert(model->name);
    const auto* digests = std::get_if<Digests>(&record.what);
    if (!digests) continue;
    const auto& list = *digests->list;
    if (!is_optimizer(list.of) && !watched.contains(list.of)) continue;
    const auto elements = elements_in(*digests);
    if (list.role == role::kParameters) all[list.of].elements = elements;
    auto& least = all[list.of].gradients;
    if (const bool is_taken = list.role == role::kGradients || list.role == role::kTaken;
        is_taken && elements > 0)
      least = least == 0 ? elements : std::min(least, elements);
  }
  return all;
}

// True if ranks share a tensor of the gradients of every update and differ in others: something
// averaged that one.
bool is_averaged_in_part(const RecordedRun& run, const std::string& of) {
  std::map<std::string, size_t> shared;  // in how many updates, by tensor
  size_t updates = 0;
  for (const char* role : {"gradients", "taken"})
    for (const auto& row : rows_of(run, role)) {
      if (row.of != of || !row.is_whole() || !difference_in(row, "")) continue;
      ++updates;
      const auto& first = *row.by_rank.front();
      for (size_t tensor = 0; tensor < first.values.size(); ++tensor)
        if (first.values[tensor].norm > 0 &&
            std::all_of(row.by_rank.begin(), row.by_rank.end(), [&](const Digests* is) {
              return tensor < is->values.size() &&
                     is->values[tensor].bits == first.values[tensor].bits;
            }))
          ++shared[first.list->tensors[tensor].name];
    }
  return std::any_of(shared.begin(), shared.end(),
                     [&](const auto& tensor) { return tensor.second == updates; });
}

// True if it sends its parameters at each update, so that equal ones say nothing.
bool sends_parameters(const Rank& rank, int64_t elements) {
  std::map<int, int64_t> sent;  // by step
  for (const auto& event : rank.history.events)
    if (const auto* is = std::get_if<Collective>(&event.what);
        is && (is->op == "broadcast" || is->op == "send"))
      sent[event.at.step] += is->elements;
  return std::count_if(sent.begin(), sent.end(),
                       [&](const auto& step) { return step.second >= elements; }) > 1;
}

// True if loaders handed unlike batches of a training to the ranks.
bool were_handed_other_batches(const RecordedRun& run) {
  const auto rows = pass_rows(run);
  return std::any_of(rows.begin(), rows.end(), [](const PassRow& row) {
    if (!row.all(&Pass::trains)) return false;
    std::vector<std::string> prints;  // of the first batch
    for (const auto& pass : row.by_rank)
      prints.push_back(pass.batches.empty() ? "" : pass.batches.front().print);
    return std::count(prints.begin(), prints.end(), "") == 0 && !all_alike(prints);
  });
}

// True if ranks that computed different gradients, or trained on unlike batches, still made the
// same updates: something averaged them that no recorder sees.
bool is_averaged_unseen(const RecordedRun& run, const std::string& of) {
  bool any_row = false, any_difference = false;
  for (const auto& row : rows_of(run, role::kParameters))
    if (row.of == of && row.at.phase == phase::kUpdate) {
      if (!row.is_whole() || difference_in(row, "")) return false;
      any_row = true;
    }
  for (const char* role : {"gradients", "taken"})
    for (const auto& row : rows_of(run, role))
      any_difference = any_difference || (row.of == of && difference_in(row, ""));
  std::map<size_t, std::vector<std::string>> losses;
  for (const auto& rank : run.ranks) {
    size_t number = 0;
    for (const auto& record : rank.records)
      if (const auto* fact = fact_in(record, fact::kBackward);
          fact && fact->values.contains("loss"))
        losses[number++].push_back(fact->values["loss"].dump());
  }
  for (const auto& [number, texts] : losses) any_difference = any_difference || !all_alike(texts);
  return any_row && (any_difference || were_handed_other_batches(run));
}

// True if the rank's recorded parameters never change: nothing that another rank sends is for them.
bool keeps_its_parameters(const Rank& rank) {
  std::map<std::string, const Digests*> first;
  for (const auto& record : rank.records) {
    const auto* is = digests_in(record, role::kParameters);
    if (!is) continue;
    const auto* before = first.try_emplace(is->list->of, is).first->second;
    if (!have_equal_bits(*is, *before)) return false;
  }
  return !first.empty();
}

// True if a rank receives more than a number from others, such as what actors have seen.
bool receives_data(const Rank& rank) {
  return std::any_of(rank.history.events.begin(), rank.history.events.end(),
                     [](const Event& event) {
                       const auto* is = std::get_if<Collective>(&event.what);
                       const bool receives =
                           is && (is->op == "recv" || is->op.find("gather") != std::string::npos ||
                                  is->op.starts_with("alltoall"));
                       return receives && is->elements > 1;
                     });
}

// True if at most one rank makes backwards, as a learner does for actors: there is nothing to
// average. Of a model that is not wrapped no backward is recorded on a rank that never updates, so
// what it computes must have been sent.
bool computes_gradients_alone(const RecordedRun& run) {
  return std::any_of(run.ranks.begin(), run.ranks.end(), receives_data) &&
         std::count_if(run.ranks.begin(), run.ranks.end(), [](const Rank& rank) {
           return std::any_of(rank.records.begin(), rank.records.end(), [](const Record& record) {
             const auto* fact = std::get_if<Fact>(&record.what);
             return is_backward(record) || (fact && fact->name == fact::kOwnGradients);
           });
         }) <= 1;
}

// True if a rank has made a whole update with this optimizer, which may average within its step.
bool has_updated(const RecordedRun& run, const std::string& optimizer) {
  return std::ranges::any_of(run.ranks, [&](const Rank& rank) {
    return std::ranges::any_of(rank.records, [&](const Record& record) {
      const auto* fact = optimizer_in(record);
      return fact && fact->name == optimizer;
    });
  });
}

}  // namespace

int64_t elements_averaged(const Rank& rank, std::string_view phase) {
  const auto can_average = [](const Collective& is) {
    const bool only_copies = is.op.starts_with("ddp_") || is.op == "broadcast" ||
                             is.op == "scatter" || is.op == "barrier";
    return !only_copies && (traits_of(is.dtype).kind == NumberKind::floating || is.dtype.empty());
  };
  std::map<int, int64_t> sent;  // by step
  int64_t most = 0;
  for (const auto& event : rank.history.events)
    if (const auto* is = std::get_if<Collective>(&event.what);
        is && can_average(*is) && (phase.empty() || event.at.phase == phase))
      most = std::max(most, sent[event.at.step] += is->elements);
  return most;
}

bool wraps_a_model(const Rank& rank) {
  return std::any_of(rank.records.begin(), rank.records.end(), [](const auto& record) {
    const auto* model = model_in(record);
    return model && model->text("wrapper") != "watched";
  });
}

std::optional<Finding> group_of_one(const RecordedRun& run) {
  std::string model;
  bool splits = false;
  for (const auto& rank : run.ranks)
    for (const auto& record : rank.records) {
      if (const auto* fact = std::get_if<Fact>(&record.what))
        splits = splits || fact->whole("replicas").value_or(1) > 1;
      const auto* is = model_in(record);
      if (!is || is->text("wrapper") != "DistributedDataParallel") continue;
      if (is->values.value("ranks", Json()) != Json::array({rank.number})) return {};
      model = is->name;
    }
  if (model.empty()) return {};
  const auto rows = rows_of(run, role::kParameters);
  const bool begin_alike = std::any_of(rows.begin(), rows.end(), [](const Row& row) {
    return row.at.phase == phase::kConstruction && row.is_whole() && !difference_in(row, "");
  });
  if (!splits && !begin_alike) return {};
  return Finding{"",
                 "group_of_one",
                 "step 0, construction",
                 "each rank wrapped " + model +
                     " for a process group of itself alone, so that nothing is averaged over the "
                     "ranks, which " +
                     (splits ? "split one dataset" : "began with the same parameters"),
                 {Cause{"new_group with one rank, or a mesh with a dimension of one: wrap for the "
                        "group of all ranks that train the model"}}};
}

bool updates_centrally(const RecordedRun& run) {
  const Rank* only = nullptr;
  for (const auto& rank : run.ranks) {
    if (updates_of(rank) == 0) continue;
    if (only) return false;
    only = &rank;
  }
  if (!only) return false;
  if (std::all_of(run.ranks.begin(), run.ranks.end(),
                  [&](const Rank& rank) { return &rank == only || keeps_its_parameters(rank); }))
    return false;  // It sends states of random generators, say.
  return std::any_of(only->records.begin(), only->records.end(), [&](const Record& record) {
    const auto* is = std::get_if<Digests>(&record.what);
    const auto elements = is && is->list->role == role::kParameters ? elements_in(*is) : 0;
    return elements > 0 && sends_parameters(*only, (elements + 1) / 2);  // it may forget some
  });
}

bool averages_unseen(const RecordedRun& run) {
  const auto all = unwrapped_in(run.ranks.front());
  return !all.empty() && std::all_of(all.begin(), all.end(), [&](const auto& each) {
    return is_averaged_unseen(run, each.first);
  });
}

std::optional<Finding> never_averaged(const RecordedRun& run) {
  const auto& rank = run.ranks.front();
  if (computes_gradients_alone(run) && updates_centrally(run)) return {};
  const bool any_wrapped = wraps_a_model(rank);
  const auto averaged_later = averaged_between_updates(run);
  for (const auto& [of, is] : unwrapped_in(rank)) {
    const bool is_seen =
        2 * elements_averaged(rank) >= is.gradients || is_averaged_in_part(run, of);
    if (is.gradients == 0 || is_seen || averaged_later.contains(of)) continue;
    if (is_optimizer(of) && !has_updated(run, of)) continue;
    if (!sends_parameters(rank, is.elements) && is_averaged_unseen(run, of)) continue;
    return Finding{
        "", "nobody_averaged", of,
        any_wrapped ? of + " updates " + with_commas(is.elements) +
                          " elements of no model that is wrapped in DistributedDataParallel, and "
                          "nothing else averaged their gradients"
                    : "no model was wrapped in DistributedDataParallel, and nothing else averaged "
                      "gradients: each rank trains " +
                          of + "'s parameters alone",
        ignored_by_the_wrapper(rank)};
  }
  return {};
}

}  // namespace lockstep::recorded
