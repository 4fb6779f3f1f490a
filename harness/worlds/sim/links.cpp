#include "harness/worlds/sim/links.h"

#include "harness/verdict/trace.h"

#include <algorithm>

namespace lockstep::sim {

namespace {

// The consecutive messages, and the part of the bytes that each carries, of an algorithm whose
// every step is between neighbours of a ring.
struct Steps {
  int64_t messages = 0;
  int64_t parts = 1;  // a message holds bytes / parts
};

Steps steps_of(const std::string& op, int64_t ranks) {
  if (is_point_to_point(op)) return {1, 1};
  if (ranks == 1) return {0, 1};
  if (op.starts_with("allreduce")) return {2 * (ranks - 1), ranks};
  if (op.find("reduce_scatter") != std::string::npos) return {ranks - 1, ranks};
  if (op == "barrier" || op == "monitoredBarrier") return {2 * (ranks - 1), 1};
  return {ranks - 1, 1};
}

}  // namespace

std::chrono::nanoseconds Links::cost(const std::string& op, int64_t bytes,
                                     const std::vector<int>& ranks) const {
  const auto [messages, parts] = steps_of(op, static_cast<int64_t>(ranks.size()));
  if (messages == 0) return {};
  std::chrono::nanoseconds slowest{};
  for (size_t i = 0; i < ranks.size(); ++i)
    slowest = std::max(
        slowest, message((bytes + parts - 1) / parts, ranks[i], ranks[(i + 1) % ranks.size()]));
  return messages * slowest;
}

std::chrono::nanoseconds Links::message(int64_t bytes, int from, int to) const {
  std::chrono::nanoseconds time{timing_.latency_ns};
  if (timing_.megabytes_per_second > 0)
    time += std::chrono::nanoseconds(bytes * 1000 / timing_.megabytes_per_second);
  for (const auto& link : timing_.slow_links)
    if ((link.from == from && link.to == to) || (link.from == to && link.to == from))
      time *= link.factor;
  return time;
}

std::chrono::nanoseconds Links::computing(int rank, std::chrono::nanoseconds work) const {
  const auto& factors = timing_.slow_ranks;
  return factors.empty() ? work : work * factors[static_cast<size_t>(rank) % factors.size()];
}

}  // namespace lockstep::sim
