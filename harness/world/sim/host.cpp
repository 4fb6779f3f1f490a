#include "harness/world/sim/host.h"

#include "harness/world/forked/conversation.h"
#include "harness/world/holdings.h"
#include "harness/world/sim/world.h"

#include <torch/torch.h>

#include <thread>

namespace lockstep::sim {

namespace {

// More would only cost memory: large worlds are rare.
constexpr int kThreadsKept = 16;

// Makes now what is made at its first use, in a thread, as ranks do.
void use_once() {
  std::thread([] {
    const auto parameter = torch::ones({1}, torch::requires_grad());
    (parameter * 2).sum().backward();
  }).join();
}

}  // namespace

int serve_host(const Host& host) {
  use_once();
  const auto holdings = Holdings::now();
  RankThreads rank_threads;
  while (const auto order = host.next()) {
    const WorldSpec spec = world_of(order->c);
    const int size = spec.size;
    std::vector<std::span<std::byte>> journals;
    for (int rank = 0; rank < size; ++rank) journals.push_back(host.journal(rank, size));
    auto played = play_simulated({.rank_threads = rank_threads,
                                  .scenario = order->scenario,
                                  .c = order->c,
                                  .spec = spec,
                                  .subject = order->subject,
                                  .journals = journals,
                                  .scratch = host.scratch,
                                  .limit = order->limit,
                                  .call_sites = order->call_sites,
                                  .running = host.running,
                                  .redirect = host.redirect});
    HostReport report{.left = std::move(played.left), .choices = {}};
    if (order->choices) report.choices = std::move(played.choices);
    report.is_usable = !played.has_frozen_ranks;
    // All ranks of the world are gone, so whatever is left was left by one of them.
    if (report.is_usable) {
      rank_threads.keep(kThreadsKept);
      auto now = holdings.later();
      now.threads -= rank_threads.size();
      for (auto& what : holdings.more_in(now)) report.left.front().push_back(std::move(what));
    }
    report.left = if_any(std::move(report.left));
    report.is_usable = report.is_usable && report.left.empty();
    host.done(report);
    if (!report.is_usable) return 0;
  }
  return 0;
}

}  // namespace lockstep::sim
