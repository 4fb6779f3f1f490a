// The usual causes of ranks that part in their collectives: see usual_cause.h.
#include "harness/base/dtype.h"
#include "harness/verdict/usual_cause.h"

#include <algorithm>

namespace lockstep {

namespace {

bool all_are_alike(const FirstDivergence& point, const auto& part_of) {
  const auto& first = part_of(point.issued.begin()->second);
  return std::all_of(point.issued.begin(), point.issued.end(),
                     [&](const auto& each) { return part_of(each.second) == first; });
}

bool can_be_gradients(const Collective& one) {
  const auto kind = traits_of(one.dtype).kind;
  return one.op == "allreduce" && (kind == NumberKind::floating || kind == NumberKind::complex);
}

// The ranks' collectives differ.
std::string cause_of_mismatch(const FirstDivergence& point) {
  const auto op = [](const Collective& one) { return one.op; };
  const auto dtype = [](const Collective& one) { return one.dtype; };
  const auto elements = [](const Collective& one) { return one.elements; };
  const auto& first = point.issued.begin()->second;
  if (!all_are_alike(point, op))
    return "ranks take different branches: parameters that some of them use, or a collective "
           "under a condition that differs by rank (`if rank == 0`)";
  if (!all_are_alike(point, dtype))
    return "ranks hold another dtype: autocast, half() or a conversion on some of them alone";
  if (all_are_alike(point, elements))
    return "src or dst is computed from the rank, or is a rank of the group on some ranks and a "
           "rank of the world on others";
  if (first.root >= 0)
    return "models that differ by rank, by a layer, a shape or a tensor: compare the names and "
           "shapes of all parameters and buffers";
  if (!can_be_gradients(first))
    return "the size of what is sent is computed from the rank's own data; or ranks issue their "
           "collectives in different orders";
  return "ranks reduce gradients or buckets in different orders, or leave out those that they lack "
         "(`if p.grad is not None`): take the order of model.parameters(), with zeros; or their "
         "models differ";
}

bool threw_and_went_on(const RankHistory& rank) {
  return std::any_of(rank.events.begin(), rank.events.end(), [](const Event& event) {
    const auto* planted = std::get_if<Injection>(&event.what);
    return planted && planted->kind == InjectionKind::throw_;
  });
}

bool waits_in_another(const RankHistory& rank) {
  return std::any_of(rank.events.begin(), rank.events.end(), [&](const Event& event) {
    const auto* issued = std::get_if<Collective>(&event.what);
    return issued && !issued->done && rank.ending.kind == Ending::Kind::stuck;
  });
}

// The step in which a rank issued it.
int step_of(const RankHistory& rank, const FirstDivergence& point) {
  for (const auto& event : rank.events)
    if (const auto* one = std::get_if<Collective>(&event.what);
        one && one->group == point.group && one->sequence == point.sequence)
      return event.at.step;
  return rank.last.step;
}

// Ranks never issued it, and others did.
std::string cause_of_missing(const FirstDivergence& point, const History& history) {
  const auto any_missing = [&](const auto& is) {
    return std::any_of(point.missing.begin(), point.missing.end(),
                       [&](int rank) { return is(history.ranks()[static_cast<size_t>(rank)]); });
  };
  if (any_missing(threw_and_went_on))
    return "a rank caught an exception and went on, and its peers wait in a collective that it "
           "left out: let the exception end the process, and the launcher ends the others";
  if (any_missing(waits_in_another))
    return "ranks run different code: model.eval() on some of them (SyncBatchNorm communicates in "
           "train() alone), another branch; or collectives of several groups or threads in "
           "different orders";
  const auto& [rank, issued] = *point.issued.begin();
  const int step = step_of(history.ranks()[static_cast<size_t>(rank)], point);
  if (any_missing([&](const RankHistory& is) { return is.last.step < step; }))
    return "ranks have unequal numbers of batches: use DistributedSampler, or Join";
  if (issued.bucket)
    return "a bucket is sent when all of its gradients are there, and a rank that does not send it "
           "lacks one: a parameter takes no part in the loss there (cure: "
           "find_unused_parameters=True), or its backward threw and was caught";
  if (can_be_gradients(issued))
    return "an all_reduce for each gradient that is there (`if p.grad is not None`), and ranks use "
           "different parameters: send zeros for the others; or a collective under a condition "
           "that differs by rank";
  return "ranks have unequal numbers of batches (use DistributedSampler, or Join), or a collective "
         "stands under a condition that differs by rank (`if rank == 0`)";
}

}  // namespace

std::string usual_cause_of(const std::optional<FirstDivergence>& point, const History& history) {
  if (!point) return "";
  if (point->is_mismatch) return cause_of_mismatch(*point);
  return point->missing.empty() ? "" : cause_of_missing(*point, history);
}

}  // namespace lockstep
