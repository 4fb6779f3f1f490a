#include "scenarios/sync_batch_norm/under_ddp.h"

#include "reference/batch_norm.h"
#include "scenarios/cases/expect.h"
#include "scenarios/cases/tensors.h"

#include <torch/torch.h>

#include <cmath>

namespace lockstep::scenarios::sync_batch_norm {

namespace {

int64_t samples_of(const UnderDdp& c, int rank) {
  return c.samples.empty() ? 2 : c.samples[static_cast<size_t>(rank) % c.samples.size()];
}

// The output of the convolution: x (channel + 1) + channel.
at::Tensor convolved(const UnderDdp& c, int rank) {
  const auto channels = torch::arange(kChannels, at::kDouble).view({kChannels, 1, 1});
  return batch(c, rank).to(at::kDouble) * (channels + 1) + channels;
}

// The statistics if every rank moves towards the average and the variance of the ranks that
// `seen_by` names.
template <class SeenBy>
ByStep followed(const UnderDdp& c, bool broadcast_buffers, const SeenBy& seen_by) {
  const double factor = std::ldexp(1.0, static_cast<int>(kNorm.momentum_log2));
  const auto moved = [&](const reference::Rounded& now, const reference::Rounded& batch) {
    return reference::moved_by(now, batch, factor, 24);
  };
  ByStep out;
  std::vector<Running> now(static_cast<size_t>(c.world.size),
                           {reference::given(torch::zeros({kChannels}, at::kDouble)),
                            reference::given(torch::ones({kChannels}, at::kDouble))});
  for (int step = 0; step < c.steps; ++step) {
    if (broadcast_buffers) now.assign(now.size(), Running(now.front()));
    for (int rank = 0; rank < c.world.size; ++rank) {
      std::vector<reference::BatchPart> parts;
      for (const int each : seen_by(step, rank))
        parts.push_back({convolved(c, each), at::zeros_like(convolved(c, each))});
      const auto seen = reference::normalised(
          {.weight = {}, .bias = {}, .eps = std::ldexp(1.0, static_cast<int>(kNorm.eps_log2))},
          parts, 24);
      auto& own = now[static_cast<size_t>(rank)];
      own = {moved(own.average, seen.average), moved(own.variance, seen.unbiased_variance)};
    }
    out.push_back(now);
  }
  return out;
}

}  // namespace

bool has_split(const UnderDdp& c) {
  return c.split_at > 0 && c.split_at < c.steps && c.world.size > 1 && c.throwing.empty() &&
         c.late < 0 && c.norm == NormKind::synchronised;
}

std::vector<int> group_in(const UnderDdp& c, int step, int rank) {
  const bool is_split = has_split(c) && step >= c.split_at;
  if (is_split && rank == 0) return {0};
  std::vector<int> out;
  for (int each = is_split ? 1 : 0; each < c.world.size; ++each) out.push_back(each);
  return out;
}

std::vector<Row> of_the_last_ranks_group(const UnderDdp& c, const std::vector<Row>& rows) {
  std::vector<Row> out;
  for (const auto& row : rows)
    out.push_back(of_group(row, group_in(c, row.at.step, c.world.size - 1)));
  return out;
}

at::Tensor batch(const UnderDdp& c, int rank) {
  return torch::full({samples_of(c, rank), 1, kSide, kSide}, c.distance * (rank % 2), at::kFloat);
}

ByStep alone(const UnderDdp& c, bool broadcast_buffers) {
  return followed(c, broadcast_buffers, [](int, int rank) { return std::vector<int>{rank}; });
}

ByStep together(const UnderDdp& c) {
  return followed(c, false, [&](int step, int rank) { return group_in(c, step, rank); });
}

std::vector<TensorValue> with_own_counts(const UnderDdp& c, const ByStep& right, int step) {
  double count = 0;
  for (int rank = 0; rank < c.world.size; ++rank)
    count += static_cast<double>(samples_of(c, rank) * kSide * kSide);
  const double kept =
      std::pow(1 - std::ldexp(1.0, static_cast<int>(kNorm.momentum_log2)), step + 1);
  std::vector<TensorValue> out;
  for (int rank = 0; rank < c.world.size; ++rank) {
    const auto believed = static_cast<double>(c.world.size * samples_of(c, rank) * kSide * kSide);
    const double ratio = believed / (believed - 1) * (count - 1) / count;
    const auto& now = right[static_cast<size_t>(step)][static_cast<size_t>(rank)].variance.value;
    out.push_back(recorded((now - kept) * ratio + kept, at::kFloat));
  }
  return out;
}

}  // namespace lockstep::scenarios::sync_batch_norm
