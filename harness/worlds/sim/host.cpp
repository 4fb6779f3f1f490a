#include "harness/worlds/sim/host.h"

#include "harness/cases/tier.h"
#include "harness/worlds/forked/conversation.h"
#include "harness/worlds/holdings.h"
#include "harness/worlds/sim/world.h"

#include <torch/torch.h>

namespace lockstep::sim {

namespace {

// More would only cost memory: large worlds are rare.
constexpr int kThreadsKept = 16;

// Makes now what is made at its first use, in a thread, as ranks do. Throws TierError.
void use_once(RankThreads& rank_threads) {
  rank_threads.start(0, [] {
    const auto parameter = torch::ones({1}, torch::requires_grad());
    (parameter * 2).sum().backward();
  });
  rank_threads.wait_for(0);
  rank_threads.keep(0);
}

// Why this host can run nothing, or "".
std::string problem_with_threads(RankThreads& rank_threads) {
  try {
    use_once(rank_threads);
    return "";
  } catch (const TierError& error) {
    return error.what();
  }
}

HostReport report_on(const CaseAssignment& order, const Host& host, RankThreads& rank_threads,
                     const Holdings& before) {
  const int size = order.request.size;
  std::vector<std::span<std::byte>> journals;
  for (int rank = 0; rank < size; ++rank) journals.push_back(host.journal(rank, size));
  auto run = run_simulated({.rank_threads = rank_threads,
                            .assignment = order,
                            .journals = journals,
                            .scratch = host.scratch,
                            .running = host.running,
                            .redirect = host.redirect});
  HostReport report{.left = std::move(run.left), .choices = {}};
  if (order.request.choices) report.choices = std::move(run.choices);
  report.is_usable = !run.has_frozen_ranks;
  // All ranks of the world are gone, so whatever is left was left by one of them.
  if (report.is_usable) {
    rank_threads.keep(kThreadsKept);
    auto now = before.later();
    now.threads -= rank_threads.size();
    for (auto& what : before.more_in(now)) report.left.front().push_back(std::move(what));
  }
  report.left = if_any(std::move(report.left));
  report.is_usable = report.is_usable && report.left.empty();
  return report;
}

}  // namespace

int serve_host(const Host& host) {
  RankThreads rank_threads;
  auto problem = problem_with_threads(rank_threads);
  const auto before = Holdings::now();
  while (const auto order = host.next()) {
    HostReport report;
    try {
      if (problem.empty()) report = report_on(*order, host, rank_threads, before);
    } catch (const TierError& error) {
      problem = error.what();
    }
    if (!problem.empty()) report = {.is_usable = false, .problem = problem};
    host.done(report);
    if (!report.is_usable) return 0;
  }
  return 0;
}

}  // namespace lockstep::sim
