#include "harness/rank/rank_context.h"

#include "harness/rank/injector.h"
#include "harness/rank/journal.h"
#include "harness/rank/tensors.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <stdexcept>

namespace lockstep {

c10::intrusive_ptr<c10d::ProcessGroup> RankContext::group() {
  std::vector<int> all(static_cast<size_t>(size()));
  std::iota(all.begin(), all.end(), 0);
  return group_of(all);
}

c10::intrusive_ptr<c10d::ProcessGroup> RankContext::group_of(const std::vector<int>& ranks) {
  const bool ascending =
      std::adjacent_find(ranks.begin(), ranks.end(), std::greater_equal<>()) == ranks.end();
  const bool inside = !ranks.empty() && ranks.front() >= 0 && ranks.back() < size();
  if (!ascending || !inside || !std::binary_search(ranks.begin(), ranks.end(), rank()))
    throw std::invalid_argument("rank " + std::to_string(rank()) + " of " + std::to_string(size()) +
                                " asked for a group of other ranks, or of ranks out of order");
  auto& group = groups_[ranks];
  if (!group) group = parts_.make_group(ranks);
  return group;
}

std::filesystem::path RankContext::scratch() {
  if (scratch_.empty()) scratch_ = parts_.make_scratch();
  return scratch_;
}

void RankContext::enter(int step, std::string_view phase) {
  const Moment moment{step, std::string(phase)};
  parts_.journal.append_text(FrameKind::moment, header_of(moment));
  parts_.injector.at_moment(moment);
}

void RankContext::record(std::string_view name, const at::Tensor& value) {
  if (!value.defined())
    throw std::invalid_argument("rank " + std::to_string(rank()) + " of " + std::to_string(size()) +
                                " was to record '" + std::string(name) +
                                "', which is an undefined tensor");
  const auto plain = value_of(value);
  parts_.journal.append_text(FrameKind::observation, header_of(name, plain.dtype, plain.shape),
                             plain.bytes);
}

void RankContext::record(std::string_view name, const std::vector<int64_t>& values) {
  parts_.journal.append_text(FrameKind::observation,
                             header_of(name, "int64", {static_cast<int64_t>(values.size())}),
                             std::as_bytes(std::span(values)));
}

void RankContext::record(const BucketLayout& layout) {
  parts_.journal.append_text(FrameKind::layout, header_of(layout));
}

}  // namespace lockstep
