#pragma once

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace lockstep::loops {

// Loops over values by channel, on the CPU: sums, in lanes whose order does not depend on the
// number of threads, and passes over every value. The caller's function receives the offset and the
// channel of a value. Everything is Local.

inline constexpr std::int64_t kChannelAxis = 1;

// The least number of values per thread, as in ATen.
inline constexpr std::int64_t kGrain = 32768;

// The number of independent accumulators in the sum of a row, so that additions do not wait for
// each other.
inline constexpr std::int64_t kLanes = 8;

// The least number of adjacent channels per thread.
inline constexpr std::int64_t kChannelsTogether = 16;

// The memory layout: `outer` times `channels` rows of `inner` values of one channel. With channels
// last, and without axes after them, rows have one value.
struct Grid {
  explicit Grid(const at::Tensor& values) : channels(values.size(kChannelAxis)) {
    if (values.numel() == 0) return;
    const bool has_rows = values.is_contiguous() && values.dim() > 2;
    outer = has_rows ? values.size(0) : values.numel() / channels;
    inner = values.numel() / (outer * channels);
  }

  std::int64_t outer = 0, channels = 0, inner = 1;
};

inline std::int64_t grain(std::int64_t values_each) {
  return std::max(kGrain / std::max(values_each, std::int64_t{1}), std::int64_t{1});
}

// The sums of the terms that `term(offset, channel)` returns for the values of a channel.
template <std::size_t kCount>
using Sums = std::array<double, kCount>;

template <std::size_t kCount, class Term>
Sums<kCount> sums_of_rows(const Grid& grid, std::int64_t channel, const Term& term) {
  std::array<Sums<kLanes>, kCount> lanes{};
  const auto add = [&](std::int64_t offset, std::size_t lane) {
    const Sums<kCount> terms = term(offset, channel);
    for (std::size_t k = 0; k < kCount; ++k) lanes[k][lane] += terms[k];
  };
  for (std::int64_t row = 0; row < grid.outer; ++row) {
    const std::int64_t first = (row * grid.channels + channel) * grid.inner;
    std::int64_t i = 0;
    for (; i + kLanes <= grid.inner; i += kLanes) {
      for (std::int64_t lane = 0; lane < kLanes; ++lane)
        add(first + i + lane, static_cast<std::size_t>(lane));
    }
    for (; i < grid.inner; ++i) add(first + i, static_cast<std::size_t>(i % kLanes));
  }
  Sums<kCount> sums{};
  for (std::size_t k = 0; k < kCount; ++k) {
    for (const double lane : lanes[k]) sums[k] += lane;
  }
  return sums;
}

// The same for channels [begin, end), which are adjacent in memory.
template <std::size_t kCount, class Term, class Store>
void sum_columns(const Grid& grid, std::int64_t begin, std::int64_t end, const Term& term,
                 const Store& store) {
  const auto width = static_cast<std::size_t>(end - begin);
  std::array<std::vector<double>, kCount> columns;
  for (auto& each : columns) each.assign(width, 0.0);
  std::array<double*, kCount> sums{};
  for (std::size_t k = 0; k < kCount; ++k) sums[k] = columns[k].data();
  for (std::int64_t row = 0; row < grid.outer; ++row) {
    const std::int64_t first = row * grid.channels + begin;
    for (std::size_t i = 0; i < width; ++i) {
      const auto column = static_cast<std::int64_t>(i);
      const Sums<kCount> terms = term(first + column, begin + column);
      for (std::size_t k = 0; k < kCount; ++k) sums[k][i] += terms[k];
    }
  }
  for (std::size_t i = 0; i < width; ++i) {
    Sums<kCount> both{};
    for (std::size_t k = 0; k < kCount; ++k) both[k] = columns[k][i];
    store(begin + static_cast<std::int64_t>(i), both);
  }
}

// Calls store(channel, sums) for every channel.
template <std::size_t kCount, class Term, class Store>
void sum_by_channel(const Grid& grid, const Term& term, const Store& store) {
  const std::int64_t each = grid.outer * grid.inner;
  if (grid.inner > 1) {
    at::parallel_for(0, grid.channels, grain(each), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t channel = begin; channel < end; ++channel)
        store(channel, sums_of_rows<kCount>(grid, channel, term));
    });
    return;
  }
  at::parallel_for(0, grid.channels, std::max(grain(each), kChannelsTogether),
                   [&](std::int64_t begin, std::int64_t end) {
                     sum_columns<kCount>(grid, begin, end, term, store);
                   });
}

// Calls act(offset, channel) for every value.
template <class Act>
void for_each_place(const Grid& grid, const Act& act) {
  if (grid.inner > 1) {
    at::parallel_for(0, grid.outer * grid.channels, grain(grid.inner),
                     [&](std::int64_t begin, std::int64_t end) {
                       for (std::int64_t row = begin; row < end; ++row) {
                         const std::int64_t channel = row % grid.channels;
                         const std::int64_t first = row * grid.inner;
                         for (std::int64_t i = 0; i < grid.inner; ++i) act(first + i, channel);
                       }
                     });
    return;
  }
  at::parallel_for(0, grid.outer, grain(grid.channels), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      for (std::int64_t channel = 0; channel < grid.channels; ++channel)
        act(row * grid.channels + channel, channel);
    }
  });
}

}  // namespace lockstep::loops
