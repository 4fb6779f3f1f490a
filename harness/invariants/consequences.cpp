#include "harness/invariants/consequences.h"

#include "harness/invariants/rows.h"

#include <algorithm>
#include <set>

namespace lockstep::recorded {

namespace {

// An invariant that fails, and the beginnings of those that fail with it from that moment on. The
// first of the list is the cause where two fail in one moment.
struct Consequence {
  std::string_view cause;
  std::vector<std::string_view> of;
};

const std::vector<Consequence>& consequences() {
  static const std::vector<Consequence> kAll{
      {"data.is_one_dataset", {"data.", "run.", "collectives.", "values.follow"}},
      {"run.is_recorded_whole", {""}},
      {"forward.",
       {"collectives.", "run.", "gradients.", "optimizer.has_", "parameters.", "values.follow"}},
      {"run.has_one_length",
       {"collectives.", "run.is_", "data.", "gradients.", "optimizer.has_", "parameters.",
        "buffers.", "values.follow"}},
      {"collectives.", {"run.", "values.follow"}},
      {"data.is_partitioned", {"gradients.differ_in_no_sync"}},
      {"data.is_that", {"values.follow"}},
      {"optimizer.owns", {"parameters.", "optimizer.has_"}},
      {"gradients.are_averages",
       {"optimizer.has_one_state", "parameters.", "gradients.are_the_same", "values.stay"}},
      {"gradients.are_the_same",
       {"optimizer.has_one_state", "parameters.", "run.has_", "collectives."}},
      {"optimizer.has_one_setting",
       {"optimizer.has_one_state", "parameters.", "gradients.", "values.follow"}},
      {"parameters.",
       {"optimizer.has_one_state", "gradients.", "buffers.", "run.has_", "collectives.",
        "values.follow"}},
      {"optimizer.has_one_state", {"parameters.", "gradients."}},
  };
  return kAll;
}

size_t rank_of(std::string_view name) {
  const auto& all = consequences();
  const auto found = std::find_if(all.begin(), all.end(),
                                  [&](const auto& each) { return name.starts_with(each.cause); });
  return static_cast<size_t>(found - all.begin());
}

bool leads_to(std::string_view cause, std::string_view other) {
  const auto rank = rank_of(cause);
  if (rank == consequences().size() || cause == other) return false;
  const auto& of = consequences()[rank].of;
  return std::any_of(of.begin(), of.end(), [&](auto begin) { return other.starts_with(begin); });
}

bool has_finding(const NamedJudgement& one) {
  return one.judgement.why_not.empty() && !one.judgement.findings.empty();
}

// True if ranks issued different collectives: what ended them came after it.
bool is_a_mismatch(const NamedJudgement& one) {
  return one.name.starts_with("collectives.") &&
         one.judgement.findings.front().pattern == kMismatched;
}

// True if a rank made fewer steps than others: that has a reason of its own, such as its batches.
bool is_shortage(const NamedJudgement& one) {
  return one.name.starts_with("run.has_") &&
         one.judgement.findings.front().pattern == "stopped_early";
}

// True if gradients were averaged, after a fashion: nobody's average is that one's lack.
bool takes_one_ranks_gradients(const NamedJudgement& one) {
  return one.name == "gradients.are_averages" &&
         one.judgement.findings.front().pattern == "one_ranks_gradient";
}

bool says_that_nobody_averages(const NamedJudgement& one) {
  return one.name.starts_with("forward.") &&
         one.judgement.findings.front().pattern == "nobody_averaged";
}

// True if the other one fails at no earlier moment. A finding about the whole run may follow from
// anything and be the cause of anything; a remark, in a strict judgement, causes nothing.
bool may_cause(const NamedJudgement& cause, const NamedJudgement& other) {
  const auto &at = cause.judgement.at, &then = other.judgement.at;
  if (cause.name == "run.is_recorded_whole" && is_a_mismatch(other)) return false;
  if (cause.name.starts_with("parameters.") && is_shortage(other)) return false;
  if (says_that_nobody_averages(cause) && takes_one_ranks_gradients(other)) return false;
  if (takes_one_ranks_gradients(cause) && says_that_nobody_averages(other)) return true;
  return cause.judgement.is_certain && !cause.judgement.is_customary &&
         leads_to(cause.name, other.name) && (!at || !then || !comes_before(*then, *at));
}

// Decides which of two failing judgements to name: that of the earlier moment, then that of the
// table's order. A rank that gave up waiting is named last.
bool is_named_before(const NamedJudgement& a, const NamedJudgement& b) {
  const auto &at = a.judgement.at, &other = b.judgement.at;
  if (a.judgement.is_victim != b.judgement.is_victim) return b.judgement.is_victim;
  if (at && other && comes_before(*at, *other)) return true;
  if (at && other && comes_before(*other, *at)) return false;
  return rank_of(a.name) < rank_of(b.name);
}

// The cause of one among those that fail; null where it is a cause itself.
NamedJudgement* cause_of(const NamedJudgement& other, const std::vector<NamedJudgement*>& failing) {
  NamedJudgement* cause = nullptr;
  for (auto* each : failing)
    if (each != &other && may_cause(*each, other) &&
        (!may_cause(other, *each) || is_named_before(*each, other)) &&
        (!cause || is_named_before(*each, *cause)))
      cause = each;
  return cause;
}

}  // namespace

void fold_consequences(std::vector<NamedJudgement>& all) {
  std::vector<NamedJudgement*> failing;
  for (auto& one : all)
    if (has_finding(one)) failing.push_back(&one);
  std::vector<std::pair<NamedJudgement*, NamedJudgement*>> folded;  // and its root
  for (auto* one : failing) {
    NamedJudgement* root = one;
    for (size_t up = 0; up < failing.size(); ++up)  // causes may not go round for ever
      if (auto* cause = cause_of(*root, failing)) root = cause;
    if (root != one) folded.emplace_back(one, root);
  }
  std::set<NamedJudgement*> roots;
  const auto is_folded = [&](const NamedJudgement* wanted) {
    return std::any_of(folded.begin(), folded.end(),
                       [&](const auto& each) { return each.first == wanted; });
  };
  for (const auto& [one, root] : folded) {
    if (is_folded(root)) continue;
    auto& details = root->judgement.findings.front().details;
    if (roots.insert(root).second) details.push_back("what follows from it:");
    details.push_back("  " + std::string(one->name) + ": " +
                      one->judgement.findings.front().diagnosis);
    one->judgement.why_not = "follows from " + std::string(root->name);
  }
}

}  // namespace lockstep::recorded
