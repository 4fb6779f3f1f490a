// A faulty subject for the campaign's own tests: a shape of case with as many fields as a training
// has, and bugs planted in it, each of which fails on exactly the cases that `strikes` says and
// whose smallest case is known.
#pragma once

#include "harness/cases/trials.h"

#include <vector>

namespace lockstep::planted {

struct PlantedLayer {
  int width = 1;
  bool bias = false;
  int tied = 0;  // layers with the same number above 0 share their weight
  auto operator<=>(const PlantedLayer&) const = default;
  static constexpr auto fields() {
    return std::tuple{field("width", &PlantedLayer::width, between(1, 64)),
                      field("bias", &PlantedLayer::bias),
                      field("tied", &PlantedLayer::tied, between(0, 20))};
  }
};

enum class Hook { none, half, sum };

enum class Values { exact, real };

struct Planted {
  WorldSpec world;
  int steps = 1;
  std::vector<PlantedLayer> layers;
  std::vector<int> parts;  // rank r's part of the batch is parts[r], read cyclically
  int micro_batches = 1;
  int groups = 1;
  int64_t bucket_cap = 0;
  bool find_unused = false;
  bool as_view = false;
  Hook hook = Hook::none;
  Values values = Values::exact;
  uint64_t seed = 0;
  auto operator<=>(const Planted&) const = default;
  static constexpr auto fields() {
    return std::tuple{field("world", &Planted::world),
                      field("steps", &Planted::steps, between(1, 100)),
                      field("layers", &Planted::layers),
                      field("parts", &Planted::parts, between(0, 100)),
                      field("micro_batches", &Planted::micro_batches, between(1, 16)),
                      field("groups", &Planted::groups, between(1, 8)),
                      field("bucket_cap", &Planted::bucket_cap, at_least(0)),
                      field("find_unused", &Planted::find_unused),
                      field("as_view", &Planted::as_view),
                      field("hook", &Planted::hook),
                      field("values", &Planted::values, {}, Cost::numbers),
                      field("seed", &Planted::seed, {}, Cost::numbers)};
  }
};

// How ranks end where a bug strikes.
enum class Symptom { wrong_number, wrong_sentence, hang, crash };

struct Bug {
  std::string name;
  Symptom symptom;
  bool (*strikes)(const Planted&);
  Planted smallest;
  void (*plant)(Planted&);  // makes a large case one in which it strikes
  // Where the numbers show but which ranks differ, and elsewhere what happened; null: nowhere.
  bool (*hides)(const Planted&) = nullptr;
};
const std::vector<Bug>& bugs();

Scenario scenario_of_planted();
Planted typed(const Case& c);
Case erased(const Planted& c);

// The history that the ranks of `c` leave where `bug` is the subject's.
History run(const Bug& bug, const Case& c);

// A world of 7, 12 layers, 30 steps, and something in every other field.
Planted large_case();

// Runs candidates one by one, at once, and counts the runs.
class PlantedTrials : public Trials {
 public:
  explicit PlantedTrials(std::function<bool(const Case&)> shows) : shows_(std::move(shows)) {}
  std::vector<std::optional<Outcome>> run(const std::vector<Case>& cases, Outcome wanted,
                                          TrialTime until) override;
  int64_t runs = 0;

 private:
  std::function<bool(const Case&)> shows_;
};

}  // namespace lockstep::planted
