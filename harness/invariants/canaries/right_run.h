// A right run of a toy training, as `judge` reads it, in which canaries and tests plant mistakes.
#pragma once

#include "harness/recorded/recorded_run.h"

#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

namespace lockstep::recorded {

inline constexpr int kSteps = 4;
inline constexpr int64_t kLength = 16;

inline Digests digests(const std::string& role, const std::vector<Digest>& values) {
  TensorList list{.of = role == role::kState ? "optimizer 0" : "model 0", .role = role};
  for (size_t i = 0; i < values.size(); ++i)
    list.tensors.push_back({"w" + std::to_string(i), "float32", {2}});
  return {std::make_shared<const TensorList>(std::move(list)), values};
}

// A rank of a right run: two epochs of two steps, sharded indices, synchronised backwards.
inline Rank right_rank(int number, int world) {
  Rank rank{.is_there = true, .number = number, .world = world, .program = "toy.py"};
  const auto add = [&](const Moment& at, auto what) {
    rank.records.push_back({at, std::move(what)});
  };
  int64_t sequence = 0;
  const auto issue = [&](const Moment& at, const char* op) {
    rank.history.events.push_back({at, Collective{.op = op,
                                                  .group = "world",
                                                  .dtype = "float32",
                                                  .sequence = sequence++,
                                                  .elements = 4,
                                                  .done = true}});
  };
  add({}, Fact{"process group", {{"rank", number}, {"world", world}, {"backend", "gloo"}}});
  add({0, "construction"}, Fact{"model 0", {{"dropouts", 1}}});
  add({0, "construction"}, digests("parameters", {{1, 1}, {2, 1}}));
  add({0, "data"}, Fact{"loader 1", {{"length", world}, {"replicas", world}}});
  add({0, "data"}, Drawn{"loader 1", {number}});
  add({0, "data"}, Fact{"loader 1 exhausted", Json::object()});
  for (int step = 0; step < kSteps; ++step) {
    const int epoch = step / 2;
    if (step % 2 == 0) {
      add({step, "data"}, Fact{"loader 0",
                               {{"epoch", epoch},
                                {"length", kLength},
                                {"replicas", world},
                                {"shuffle", true},
                                {"sampler_epoch", epoch},
                                {"seed", 0},
                                {"batch_size", 4}}});
    }
    Drawn drawn{"loader 0", {}};
    for (int64_t i = 0; i < 4; ++i)
      drawn.indices.push_back((number + world * (i + 4 * (step % 2)) + 5 * epoch) % kLength);
    add({step, "data"}, drawn);
    issue({step, "forward"}, "ddp_buffers");
    add({step, "forward"}, digests("buffers", {{uint64_t(step), 1}}));
    add({step, "forward"}, digests("random", {{uint64_t(100 * step + number), 1}}));
    issue({step, "backward"}, "ddp_backward");
    add({step, "backward"},
        Fact{"terms", {{"function", "nll_loss"}, {"terms", 4}, {"weight", 1.0}}});
    add({step, "backward"}, Fact{"backward", {{"model", "model 0"}, {"kind", "synchronised"}}});
    add({step, "backward"}, digests("gradients", {{uint64_t(step), 1}, {uint64_t(step), 1}}));
    add({step, "update"}, Fact{"optimizer 0",
                               {{"kind", "SGD"},
                                {"groups", Json::array({{{"lr", 0.5}}})},
                                {"owned", Json::array({Json::array({"model 0", "w0"}),
                                                       Json::array({"model 0", "w1"})})},
                                {"foreign", 0}}});
    add({step, "update"}, digests("state", {{uint64_t(step), 1}}));
    add({step, "update"}, digests("parameters", {{uint64_t(step) + 10, 1}, {3, 1}}));
    if (step % 2 == 1) add({step, "data"}, Fact{"loader 0 exhausted", Json::object()});
  }
  rank.history.last = {kSteps - 1, "update"};
  return rank;
}

inline RecordedRun right_run(int world = 2) {
  RecordedRun run;
  for (int rank = 0; rank < world; ++rank) run.ranks.push_back(right_rank(rank, world));
  return run;
}

// The n-th record of a rank that holds T and, of digests, has the role.
template <class T>
T& nth(Rank& rank, int n, const std::string& name) {
  for (auto& record : rank.records)
    if (auto* is = std::get_if<T>(&record.what)) {
      std::string is_name;
      if constexpr (std::is_same_v<T, Digests>)
        is_name = is->list->role;
      else
        is_name = is->name;
      if (is_name == name && n-- == 0) return *is;
    }
  throw std::logic_error("no such record: " + name);
}

}  // namespace lockstep::recorded
