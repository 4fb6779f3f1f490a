#include "harness/world/sim/host.h"

#include "harness/core/json.h"
#include "harness/world/forked/conversation.h"
#include "harness/world/holdings.h"
#include "harness/world/sim/world.h"

#include <torch/torch.h>

#include <thread>

namespace lockstep::sim {

namespace {

// What is made at its first use is made now, and in a thread, as ranks will.
void use_once() {
  std::thread([] {
    const auto parameter = torch::ones({1}, torch::requires_grad());
    (parameter * 2).sum().backward();
  }).join();
}

}  // namespace

std::string text_of(const HostReport& report) {
  return Json{
      {"left", report.left}, {"choices", json_of(report.choices)}, {"usable", report.is_usable}}
      .dump();
}

HostReport host_report_in(const std::string& text) {
  const Json json = Json::parse(text);
  return {.left = json.at("left").get<std::vector<std::vector<std::string>>>(),
          .choices = choices_in(json.at("choices")),
          .is_usable = json.at("usable").get<bool>()};
}

int serve_host(const Host& host) {
  use_once();
  const auto holdings = Holdings::now();
  while (const auto order = host.next()) {
    const WorldSpec spec = world_of(order->c);
    const int size = spec.size;
    std::vector<std::span<std::byte>> journals;
    for (int rank = 0; rank < size; ++rank) journals.push_back(host.journal(rank, size));
    auto played = play_simulated({.scenario = order->scenario,
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
