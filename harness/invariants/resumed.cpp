// A run beside the one that it resumes.
#include "harness/invariants/resumed.h"

#include "harness/base/text.h"
#include "harness/invariants/optimizers/settings.h"
#include "harness/invariants/rows.h"
#include "harness/recorded/passes.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>

namespace lockstep::recorded {

namespace {

bool are_parameters_of_a_model(const Digests* digests) {
  return digests && digests->list->role == role::kParameters && !is_optimizer(digests->list->of);
}

bool hold_the_same(const Digests& a, const Digests& b) {
  return a.list->of == b.list->of && a.list->tensors == b.list->tensors && have_equal_bits(a, b);
}

// The parameters of the first model as the first update found them: a checkpoint may be loaded
// after the model was wrapped. Null where none were recorded.
const Digests* first_parameters(const Rank& rank) {
  const Digests* found = nullptr;
  for (const auto& record : rank.records) {
    if (record.at.step > 0 || record.at.phase == phase::kUpdate) break;
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
        are_parameters_of_a_model(digests) && record.at.phase == phase::kUpdate &&
        hold_the_same(*digests, parameters))
      step = record.at.step;
  return step;
}

// The samples in the order in which the ranks drew them, one after the other, without the padding
// at the end: that of worlds of any size, where a sampler deals in turn.
std::vector<int64_t> order_of(const PassRow& row) {
  std::vector<int64_t> order;
  size_t most = 0;
  for (const auto& pass : row.by_rank) most = std::max(most, pass.indices.size());
  for (size_t at = 0; at < most; ++at)
    for (const auto& pass : row.by_rank)
      if (at < pass.indices.size()) order.push_back(pass.indices[at]);
  if (const auto length = row.by_rank.front().length();
      length >= 0 && static_cast<int64_t>(order.size()) > length)
    order.resize(static_cast<size_t>(length));
  return order;
}

// Where a run continues another one: the step of that one after which it held these parameters. Or
// why it does not.
struct Continued {
  int step = 0;
  std::string why_not;
};
Continued continued_at(const RecordedRun& run, const RecordedRun& before) {
  const auto* parameters = first_parameters(run.ranks.front());
  if (!parameters) return {.why_not = "no parameters were recorded before the first update"};
  const auto step = step_with(*parameters, before.ranks.front());
  if (!step)
    return {.why_not =
                "it begins with parameters that the run before had after no update that was "
                "recorded, so that it does not resume it"};
  return {.step = *step};
}

// The digests of an optimizer's tensors by their names; the last of the role up to a step.
std::map<std::string, uint64_t> state_in(const Rank& rank, const std::string& optimizer,
                                         std::string_view role, int step) {
  std::map<std::string, uint64_t> state;
  for (const auto& record : rank.records) {
    const auto* digests = std::get_if<Digests>(&record.what);
    if (!digests || digests->list->of != optimizer || digests->list->role != role) continue;
    if (role == role::kState ? record.at.step != step : record.at.step > step) continue;
    state.clear();
    for (size_t at = 0; at < digests->values.size(); ++at)
      state[digests->list->tensors[at].name] = digests->values[at].bits;
  }
  return state;
}

// A sentence on the state of an optimizer that a run does not continue; empty where it continues
// all.
std::string other_state(const std::string& optimizer, const Rank& rank, const Rank& before,
                        int step, bool is_one_world) {
  const auto then = state_in(before, optimizer, "state", step);
  const auto now = state_in(rank, optimizer, "restored", rank.history.last.step);
  if (then.empty()) return "";
  const auto had = "; the run before had " + counted(then.size(), "tensor") + " of it after step " +
                   std::to_string(step);
  if (now.empty()) return optimizer + " begins without a state" + had;
  if (!is_one_world) return "";  // ranks may divide it otherwise
  for (const auto& [name, bits] : then) {
    const auto found = now.find(name);
    if (found == now.end()) return optimizer + " begins without " + name + had;
    if (found->second != bits) return optimizer + " begins with another " + name + had;
  }
  return "";
}

// A setting that is not that of the update that follows in the run before, or else begins anew: the
// first updates have the settings of that run's first ones, which it had left by then.
std::string setting_lost(const std::vector<Update>& now, const std::vector<Update>& then, int step,
                         bool is_one_world) {
  constexpr size_t kUpdatesLeast = 2;
  const auto next = std::find_if(then.begin(), then.end(),
                                 [&](const Update& update) { return update.step > step; });
  for (size_t at = 0; at < now.size() && next + static_cast<std::ptrdiff_t>(at) < then.end();
       ++at) {
    if (at > 0 && !is_one_world) break;  // it may have more updates in an epoch
    const auto text =
        other_setting(*now[at].optimizer, *(next + static_cast<std::ptrdiff_t>(at))->optimizer,
                      "it resumes with", "the run before continued with");
    if (!text.empty()) return text + (at == 0 ? "" : " in update " + std::to_string(at + 1));
  }
  if (next != then.end()) return "";
  const auto& last = *then.back().optimizer;
  auto left =
      other_setting(*now.front().optimizer, last, "it resumes with", "the run before ended with");
  if (left.empty() || now.size() < kUpdatesLeast || then.size() < kUpdatesLeast) return "";
  for (size_t at = 0; at < kUpdatesLeast; ++at)
    if (settings_of(*now[at].optimizer) != settings_of(*then[at].optimizer)) return "";
  return left + ", having begun as this one does";
}

using Content = std::vector<uint64_t>;  // of tensors, whatever their names

Content content_of(const Digests& digests) {
  Content content;
  for (const auto& value : digests.values) content.push_back(value.bits);
  std::sort(content.begin(), content.end());
  return content;
}

// An average of weights as a rank recorded it, and whether a model had held just these values by
// then: where an average begins, it is a copy.
struct Average {
  std::string of;
  int step = 0;
  bool is_copy = false;
};
std::vector<Average> averages_in(const Rank& rank) {
  std::vector<Average> all;
  std::set<Content> held;
  for (const auto& record : rank.records) {
    const auto* digests = std::get_if<Digests>(&record.what);
    if (are_parameters_of_a_model(digests)) held.insert(content_of(*digests));
    if (digests && digests->list->role == role::kAverage)
      all.push_back({digests->list->of, record.at.step, held.contains(content_of(*digests))});
  }
  return all;
}

// A sentence on an average that begins as a copy, though that of the run before had gone its own
// way; empty where none does.
std::string average_lost(const Rank& rank, const Rank& before, int step) {
  std::map<std::string, Average> then;
  for (const auto& average : averages_in(before))
    if (average.step <= step) then[average.of] = average;
  std::set<std::string> seen;
  for (const auto& now : averages_in(rank)) {
    const auto found = then.find(now.of);
    if (!seen.insert(now.of).second || found == then.end()) continue;
    if (now.is_copy && !found->second.is_copy)
      return now.of +
             " begins anew, as a copy of the parameters; that of the run before had averaged up to "
             "step " +
             std::to_string(found->second.step);
  }
  return "";
}

std::string epoch_text(const PassRow& row) {
  const auto epoch = row.by_rank.front().is->whole("sampler_epoch");
  return epoch ? std::to_string(*epoch) : "unknown";
}

}  // namespace

Judgement order_continues(const RecordedRun& run, const RecordedRun& before) {
  const auto continued = continued_at(run, before);
  if (!continued.why_not.empty()) return {.why_not = continued.why_not};
  Judgement judgement;
  size_t compared = 0;
  const auto earlier = pass_rows(before);
  for (const auto& row : pass_rows(run)) {
    if (!trains_shuffled(row) || !row.all_whole()) continue;
    for (const auto& other : earlier) {
      if (!trains_shuffled(other) || !other.all_whole() ||
          other.by_rank.front().last.step > continued.step ||
          !have_one_dataset(other.by_rank.front(), row.by_rank.front()))
        continue;
      ++compared;
      if (order_of(row) != order_of(other) || !judgement.findings.empty()) continue;
      judgement.add(
          Found{{"", "epoch_drawn_before", row.place(),
                 row.place() + " has the order of " + other.place() +
                     " of the run before on every rank, which that run had made before step " +
                     std::to_string(continued.step + 1) +
                     ", where this one continues; the epoch of its sampler is " + epoch_text(row) +
                     ", and was " + epoch_text(other) +
                     " then: call set_epoch with the epoch of the whole training"},
                row.by_rank.front().last});
    }
  }
  if (compared == 0)
    return {.why_not = "no two whole passes of training that shuffle, one in each run"};
  judgement.compared = counted(compared, "pair") + " of passes";
  return judgement;
}

Judgement optimizers_continue(const RecordedRun& run, const RecordedRun& before) {
  const auto continued = continued_at(run, before);
  if (!continued.why_not.empty()) return {.why_not = continued.why_not};
  const auto &rank = run.ranks.front(), &other = before.ranks.front();
  const auto now = updates_by_optimizer(rank), then = updates_by_optimizer(other);
  Judgement judgement;
  size_t compared = 0;
  const auto found = [&](const char* pattern, std::string text, const char* cure) {
    if (!text.empty())
      judgement.add(Found{{"", pattern, "step 0, update", std::move(text), {cure}}, {0, "update"}});
  };
  for (const auto& [optimizer, updates] : now) {
    const auto earlier = then.find(optimizer);
    if (earlier == then.end()) continue;
    ++compared;
    found("state_lost",
          other_state(optimizer, rank, other, continued.step,
                      run.ranks.size() == before.ranks.size()),
          "load the optimizer's state_dict on every rank, before the first update");
    // Others may have made their updates of the last step after the parameters were those.
    const auto last_of_step = continued.step + static_cast<int>(then.size()) - 1;
    found("setting_lost",
          setting_lost(updates, earlier->second, last_of_step,
                       run.ranks.size() == before.ranks.size()),
          "load the state_dict of the scheduler too, or set its last epoch");
  }
  found("average_lost", average_lost(rank, other, continued.step),
        "save the state_dict of the average of weights too, and load it before its first update");
  if (compared == 0) return {.why_not = "no optimizer made an update in both runs"};
  judgement.compared = counted(compared, "optimizer");
  return judgement;
}

}  // namespace lockstep::recorded
