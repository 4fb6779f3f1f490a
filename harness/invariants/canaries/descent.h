// A toy descent as several ranks and as one process, with the values of its tensors.
#pragma once

#include "harness/invariants/against/against.h"

#include <cstring>
#include <functional>
#include <memory>
#include <vector>

namespace lockstep::recorded {

inline constexpr int kTaken = 3;
inline constexpr float kRate = 0.5F;

inline TensorValue floats(const std::vector<float>& values) {
  TensorValue value{"float32", {static_cast<int64_t>(values.size())}, {}};
  value.bytes.resize(values.size() * sizeof(float));
  std::memcpy(value.bytes.data(), values.data(), value.bytes.size());
  return value;
}

inline std::vector<float> floats_in(const TensorValue& value) {
  std::vector<float> values(value.bytes.size() / sizeof(float));
  std::memcpy(values.data(), value.bytes.data(), value.bytes.size());
  return values;
}

inline Digests recorded(const std::string& role, const std::vector<float>& w) {
  TensorList list{
      .of = "model 0", .role = role, .tensors = {{"w", "float32", {int64_t(w.size())}}}};
  return {std::make_shared<const TensorList>(std::move(list)), {{1, 1}}, {floats(w)}};
}

// A rank that descends along (w - target), whose gradient is off by `noise` of itself.
inline Rank rank_of(int number, int world, float noise) {
  Rank rank{.is_there = true, .number = number, .world = world};
  const auto add = [&](const Moment& at, auto what) {
    rank.records.push_back({at, std::move(what)});
  };
  std::vector<float> w{1, -2, 0.75F};
  const std::vector<float> target{0.3F, 0.7F, -0.1F};
  add({0, "construction"}, recorded("parameters", w));
  add({0, "data"}, Fact{"loader 0", {{"length", 4 * kTaken}}});
  for (int step = 0; step < kTaken; ++step) {
    Drawn drawn{"loader 0", {}};
    for (int i = number; i < 4; i += world) drawn.indices.push_back(4 * step + i);
    add({step, "data"}, drawn);
    std::vector<float> gradient;
    for (size_t i = 0; i < w.size(); ++i) gradient.push_back((w[i] - target[i]) * (1 + noise));
    add({step, "backward"}, Fact{"backward", {{"model", "model 0"}, {"kind", "synchronised"}}});
    add({step, "backward"}, recorded("gradients", gradient));
    for (size_t i = 0; i < w.size(); ++i) w[i] -= kRate * gradient[i];
    add({step, "update"}, Fact{"optimizer 0", Json::object()});
    add({step, "update"}, recorded("parameters", w));
  }
  add({kTaken, "data"}, Fact{"loader 0 exhausted", Json::object()});
  return rank;
}

inline RecordedRun ranks_of(int world, float noise = 0) {
  RecordedRun run;
  for (int rank = 0; rank < world; ++rank) run.ranks.push_back(rank_of(rank, world, noise));
  return run;
}

inline OneProcess one_process(float moved = 1e-7F) {
  return {ranks_of(1), {ranks_of(1, moved)}};
}

// The n-th record of a role, of every rank.
inline void change(RecordedRun& run, const std::string& role, int n,
                   const std::function<void(Digests&)>& how) {
  for (auto& rank : run.ranks) {
    int number = 0;
    for (auto& record : rank.records)
      if (auto* digests = std::get_if<Digests>(&record.what);
          digests && digests->list->role == role && number++ == n)
        how(*digests);
  }
}

inline auto times(float factor) {
  return [factor](Digests& is) {
    auto values = floats_in(is.elements[0]);
    for (auto& value : values) value *= factor;
    is.elements[0] = floats(values);
  };
}

inline Finding first_finding(const RecordedRun& run, const OneProcess& one) {
  const auto findings = values_follow_one_process(run, one).findings;
  return findings.empty() ? Finding{} : findings.front();
}

}  // namespace lockstep::recorded
