#include "scenarios/sync_batch_norm/splits.h"

#include <torch/torch.h>

#include <algorithm>
#include <numeric>

namespace lockstep::scenarios::sync_batch_norm {

namespace {

std::vector<int> ranks_from(int first, int size) {
  std::vector<int> ranks(static_cast<size_t>(size - first));
  std::iota(ranks.begin(), ranks.end(), first);
  return ranks;
}

std::vector<Samples> as_given(const Layer& c) {
  std::vector<Samples> out;
  int64_t begin = 0;
  for (int rank = 0; rank < c.world.size; begin = out.back().end, ++rank)
    out.push_back({begin, begin + samples_of(c, rank)});
  return out;
}

std::vector<Samples> evenly(int64_t samples, const std::vector<int>& group, int size) {
  std::vector<Samples> out(static_cast<size_t>(size));
  const auto count = static_cast<int64_t>(group.size());
  for (int64_t i = 0; i < count; ++i)
    out[static_cast<size_t>(group[static_cast<size_t>(i)])] = {samples * i / count,
                                                               samples * (i + 1) / count};
  return out;
}

}  // namespace

std::vector<Split> splits_of(const Layer& c) {
  const int size = c.world.size;
  const auto everyone = ranks_from(0, size), others = ranks_from(size > 1 ? 1 : 0, size);
  const auto given = as_given(c);
  auto moved_on = given;
  std::rotate(moved_on.begin(), moved_on.begin() + 1, moved_on.end());
  const int64_t samples = given.back().end;
  return {{"as given", everyone, given},
          {"moved on by a rank", everyone, moved_on},
          {"evenly", everyone, evenly(samples, everyone, size)},
          {"all on one rank", everyone, evenly(samples, {size - 1}, size)},
          {"in a group of others", others, evenly(samples, others, size)}};
}

Whole whole_of(const Layer& c, int step) {
  std::vector<at::Tensor> inputs, cotangents;
  for (int rank = 0; rank < c.world.size; ++rank) {
    inputs.push_back(input_of(c, step, rank));
    cotangents.push_back(cotangent_of(c, step, rank));
  }
  return {at::cat(inputs), at::cat(cotangents)};
}

at::Tensor part_of(const at::Tensor& whole, const Samples& samples) {
  return whole.narrow(0, samples.begin, samples.end - samples.begin);
}

}  // namespace lockstep::scenarios::sync_batch_norm
