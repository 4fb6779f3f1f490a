#include "harness/world/sim/host.h"

#include "harness/core/json.h"
#include "harness/world/forked/conversation.h"
#include "harness/world/holdings.h"
#include "harness/world/sim/world.h"

#include <torch/torch.h>

#include <sched.h>
#include <thread>

namespace lockstep::sim {

namespace {

void stay_on(int core) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  CPU_SET(static_cast<size_t>(core), &cores);
  sched_setaffinity(0, sizeof(cores), &cores);  // where that is forbidden it is merely slower
}

// What is made at its first use is made now, and in a thread, as ranks will.
void use_once() {
  std::thread([] {
    const auto parameter = torch::ones({1}, torch::requires_grad());
    (parameter * 2).sum().backward();
  }).join();
}

}  // namespace

std::string text_of(const HostReport& report) {
  Json choices = Json::array();
  for (const auto& choice : report.choices) choices.push_back({choice.taken, choice.of});
  return Json{{"left", report.left}, {"choices", choices}, {"usable", report.is_usable}}.dump();
}

HostReport host_report_in(const std::string& text) {
  const Json json = Json::parse(text);
  HostReport report{.left = json.at("left").get<std::vector<std::vector<std::string>>>(),
                    .choices = {},
                    .is_usable = json.at("usable").get<bool>()};
  for (const auto& choice : json.at("choices"))
    report.choices.push_back({choice.at(0).get<int>(), choice.at(1).get<int>()});
  return report;
}

int serve_host(const Host& host) {
  if (host.core) stay_on(*host.core);
  use_once();
  const auto holdings = Holdings::now();
  while (const auto order = host.next()) {
    const WorldSpec spec = world_of(order->c);
    const int size = spec.size;
    std::vector<std::span<std::byte>> journals;
    for (int rank = 0; rank < size; ++rank) journals.push_back(host.journal(rank, size));
    auto played = play_simulated({.scenario = order->scenario,
                                  .c = order->c,
                                  .subject = order->subject,
                                  .journals = journals,
                                  .scratch = host.scratch,
                                  .limit = order->limit,
                                  .running = host.running,
                                  .redirect = host.redirect});
    HostReport report{.left = std::move(played.left), .choices = {}};
    if (spec.schedule.policy == "listed") report.choices = std::move(played.choices);
    report.is_usable = !played.has_frozen_ranks;
    // Of a world whose ranks are all gone, whatever is there was left by one of them.
    if (report.is_usable)
      for (auto& what : holdings.more_in(Holdings::now()))
        report.left.front().push_back(std::move(what));
    for (const auto& left : report.left) report.is_usable = report.is_usable && left.empty();
    host.done(report);
    if (!report.is_usable) return 0;
  }
  return 0;
}

}  // namespace lockstep::sim
