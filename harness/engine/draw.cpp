#include "harness/engine/draw.h"

#include "harness/core/text.h"
#include "harness/core/values.h"

#include <algorithm>
#include <array>
#include <set>

namespace lockstep {

namespace {

constexpr int kSizeMost = 100;     // RapidCheck's own scale
constexpr int kRamp = 4;           // cases have their full size after one in so many
constexpr int kDrawsPerCase = 4;   // draws spent on finding a case not seen before
constexpr uint64_t kDrawCase = 0;  // what a number drawn from the run's seed is for
constexpr uint64_t kDrawWorld = 1;
constexpr uint64_t kDrawSchedule = 2;
constexpr uint64_t kDrawLate = 3;
constexpr int kCasesPerLateOne = 4;
constexpr int kLateByMs =
    10;  // a host issues a step's kernels in less, also where ranks share a GPU

class Drawer {
 public:
  Drawer(const Scenario& scenario, const DrawOptions& options)
      : scenario_(scenario), options_(options) {}

  void add_archived(const std::vector<Case>& archived) {
    for (const auto& c : archived) {
      const Case read = scenario_.parse(c.value);
      const auto& worlds = options_.worlds;
      const bool wanted = worlds.empty() ||
                          std::find(worlds.begin(), worlds.end(), world_size(read)) != worlds.end();
      if (wanted && fixed(read) == read) add(read);
    }
  }

  void add_exhaustive() {
    for (const auto& c : scenario_.every()) {
      if (options_.worlds.empty()) add(fixed(c));
      for (const int world : options_.worlds) add(fixed(in_world(c, world)));
    }
  }

  void add_drawn() {
    const int wanted = scenario_.draws == 0 ? 0 : options_.cases.value_or(scenario_.draws);
    int found = 0;
    for (int number = 0; found < wanted && number < kDrawsPerCase * wanted; ++number)
      if (add(drawn(number, std::min(kSizeMost, kRamp * number * kSizeMost / wanted)))) {
        ++found;
        if (options_.schedules) cases_.back() = scheduled(cases_.back(), number);
        if (options_.late_results) cases_.back() = with_late_results(cases_.back(), number);
      }
  }

  std::vector<Case> take() { return std::move(cases_); }

 private:
  bool add(Case c) {
    if (!seen_.insert(hash_of(c)).second) return false;
    cases_.push_back(std::move(c));
    return true;
  }

  uint64_t bits(uint64_t purpose, int number) const {
    return bits_at({.seed = options_.seed,
                    .stream = Stream::order,
                    .rank = purpose,
                    .step = std::stoull(hash_of(scenario_.name), nullptr, 16),
                    .index = static_cast<uint64_t>(number)});
  }

  Case drawn(int number, int size) const {
    Case c = scenario_.draw(bits(kDrawCase, number), size);
    if (const auto& worlds = options_.worlds; !worlds.empty())
      c = in_world(std::move(c), worlds[bits(kDrawWorld, number) % worlds.size()]);
    return fixed(c);
  }

  // Not in the order of a drawn case's own numbers: a run draws the same cases with and without.
  Case scheduled(Case c, int number) const {
    if (const auto world = world_of(c);
        world != WorldSpec{.injections = world.injections, .size = world.size})
      return c;
    const auto drawn = bits(kDrawSchedule, number);
    constexpr std::array kPolicies{"listed", "uniform", "uniform", "priority"};
    constexpr std::array kReductions{"flat", "ring", "tree", "permuted"};
    auto& world = c.value["world"];
    world["reduction"] = kReductions[drawn % kReductions.size()];
    Schedule schedule{.policy = kPolicies[drawn / 4 % kPolicies.size()]};
    if (schedule.policy != "listed") schedule.seed = drawn >> 32;
    if (schedule.policy == "priority") schedule.changes = static_cast<int>(drawn / 16 % 4);
    world["schedule"] = to_json(schedule);
    return fixed(c);
  }

  // One rank's are enough: nobody's sum is there before all have given their part.
  Case with_late_results(Case c, int number) const {
    const auto drawn = bits(kDrawLate, number);
    const auto world = world_of(c);
    if (!world.injections.empty() || drawn % kCasesPerLateOne != 0) return c;
    const auto rank =
        static_cast<int>(drawn / kCasesPerLateOne % static_cast<uint64_t>(world.size));
    c.value["world"]["injections"] = Json::array(
        {to_json(Injection{.kind = "late", .rank = rank, .collective = 0, .amount = kLateByMs})});
    return fixed(c);
  }

  static Case in_world(Case c, int world) {
    c.value["world"]["size"] = world;
    return c;
  }

  Case fixed(const Case& c) const {
    Json value = c.value;
    for (const auto& [path, text] : options_.set) value = with_value(std::move(value), path, text);
    return scenario_.parse(value);
  }

  const Scenario& scenario_;
  const DrawOptions& options_;
  std::set<std::string> seen_;
  std::vector<Case> cases_;
};

}  // namespace

std::vector<Case> draw_cases(const Scenario& scenario, const DrawOptions& options,
                             const std::vector<Case>& archived) {
  Drawer drawer(scenario, options);
  drawer.add_archived(archived);
  drawer.add_exhaustive();
  drawer.add_drawn();
  return drawer.take();
}

Json told_of(const Case& c) {
  Json told = c.value;
  if (!told.is_object() || !told.contains("world")) return told;
  auto& world = told["world"];
  const Json defaults = to_json(WorldSpec{});
  for (const char* field : {"reduction", "schedule", "timing"})
    if (world.value(field, Json()) == defaults[field]) world.erase(field);
  return told;
}

Json unlike(const Json& value, const Json& defaults) {
  Json out = Json::object();
  for (const auto& [name, part] : value.items()) {
    const Json other = defaults.value(name, Json());
    if (part == other) continue;
    out[name] = part.is_object() && other.is_object() ? unlike(part, other) : part;
  }
  return out;
}

}  // namespace lockstep
