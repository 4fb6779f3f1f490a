// Recorded runs, which strangers may have written: read, judged and traced, or refused.
#include "harness/judge/judge_run.h"
#include "harness/judge/timeline.h"
#include "tests/readers/inputs.h"
#include "tests/readers/outcomes.h"

#include <gtest/gtest.h>

#include <cstring>
#include <iostream>
#include <map>
#include <sstream>

namespace lockstep::readers {
namespace {

constexpr int kWorldSize = 2;

std::vector<std::byte> bytes_in(const std::vector<uint64_t>& words) {
  std::vector<std::byte> bytes(words.size() * sizeof(uint64_t));
  std::memcpy(bytes.data(), words.data(), bytes.size());
  return bytes;
}

// A rank of a training of two steps that recorded something of every kind and role.
std::string trained(int rank) {
  Frames all;
  const auto add = [&](int kind, const Json& header, const std::vector<uint64_t>& words = {}) {
    all.frames.push_back({static_cast<FrameKind>(kind), header, bytes_in(words)});
    if (kind == 15) all.frames.back().payload.resize(3 * sizeof(float));
  };
  const auto list = [&](int number, const char* of, const char* role, const Json& tensors) {
    add(11, {{"list", number}, {"of", of}, {"role", role}, {"tensors", tensors}});
  };
  const auto collective = [&](const char* op, int sequence, int64_t ns) {
    add(4, {{"op", op},
            {"group", "world"},
            {"dtype", "float32"},
            {"sequence", sequence},
            {"elements", 3},
            {"root", -1},
            {"ns", ns + rank}});
    add(5, {{"group", "world"}, {"sequence", sequence}, {"ns", ns + 9}});
  };
  const Json w = Json::array({"w", "float32", {3}});
  add(1, {{"protocol", 1},
          {"rank", rank},
          {"world", kWorldSize},
          {"program", "toy.py"},
          {"torch", "2.11.0"},
          {"clock", "a"}});
  add(13,
      {{"name", "process group"}, {"values", {{"rank", rank}, {"world", 2}, {"backend", "gloo"}}}});
  add(2, {{"step", 0}, {"phase", "construction"}});
  add(13, {{"name", "model 0"}, {"values", {{"kind", "Net"}, {"dropouts", 1}}}});
  list(0, "model 0", "parameters", Json::array({w}));
  list(1, "model 0", "gradients", Json::array({w}));
  list(2, "optimizer 0", "state",
       Json::array({Json::array({"model 0 w step", "int64", Json::array()})}));
  list(3, "model 0", "random", Json::array({Json::array({"generator", "uint8", {5056}})}));
  list(4, "model 0", "buffers", Json::array({w}));
  add(12, {{"list", 0}}, {7, 0x3ff0000000000000});
  add(15, {{"list", 0}}, {0x3f8000003f800000, 0x3f800000});
  for (int step = 0; step < 2; ++step) {
    const auto number = static_cast<uint64_t>(step), own = static_cast<uint64_t>(rank);
    add(2, {{"step", step}, {"phase", "data"}});
    add(13, {{"name", "loader 0"},
             {"values",
              {{"epoch", step},
               {"length", 4},
               {"sampler", "DistributedSampler"},
               {"batch_size", 2},
               {"drops_batch", false},
               {"replicas", 2},
               {"rank", rank},
               {"shuffle", true},
               {"seed", 0},
               {"sampler_epoch", step},
               {"drops", false},
               {"fingerprint", "ab"}}}});
    add(3, {{"name", "loader 0"}, {"dtype", "int64"}, {"shape", {2}}}, {own, own + 2});
    add(13, {{"name", "loader 0 exhausted"}, {"values", Json::object()}});
    add(2, {{"step", step}, {"phase", "forward"}});
    collective("ddp_buffers", 2 * step, 100 * step + 10);
    add(12, {{"list", 4}}, {number, 0});
    add(12, {{"list", 3}}, {10 * number + own, 0});
    add(14, {{"name", "forward"}, {"from", 100 * step + 20}, {"ns", 100 * step + 30}});
    add(2, {{"step", step}, {"phase", "backward"}});
    collective("ddp_backward", 2 * step + 1, 100 * step + 40);
    add(13, {{"name", "backward"},
             {"values", {{"model", "model 0"}, {"kind", "synchronised"}, {"loss", 0.5}}}});
    add(12, {{"list", 1}}, {number + 1, 0x3ff0000000000000});
    add(15, {{"list", 1}}, {0x3f0000003f000000, 0x3f000000});
    add(2, {{"step", step}, {"phase", "update"}});
    add(13, {{"name", "optimizer 0"},
             {"values",
              {{"kind", "SGD"},
               {"groups", Json::array({{{"lr", 0.5}}})},
               {"owned", Json::array({Json::array({"model 0", "w"})})},
               {"foreign", 0}}}});
    add(12, {{"list", 2}}, {number, 0});
    add(12, {{"list", 0}}, {number + 20, 0x3ff0000000000000});
    add(14, {{"name", "update"}, {"from", 100 * step + 60}, {"ns", 100 * step + 70}});
  }
  add(8, {{"kind", "returned"}, {"why", ""}, {"ns", 300}});
  return bytes_of(all);
}

recorded::RecordedRun run_of(const std::string& changed, uint64_t number) {
  recorded::RecordedRun run;
  for (int rank = 0; rank < kWorldSize; ++rank) {
    const bool is_changed = number % 2 == static_cast<uint64_t>(rank) || number % 5 == 0;
    run.ranks.push_back(recorded::read_rank(is_changed ? changed : trained(rank), "f"));
  }
  return run;
}

std::map<std::string_view, uint64_t> results_in(const Run& run) {
  std::map<std::string_view, uint64_t> results;
  for (const auto& result : run.results) ++results[name_of(result.kind)];
  return results;
}

TEST(Readers, ARecordedRunThatNobodyChangedHolds) {
  const auto results = results_in(recorded::judged(run_of(trained(0), 2)));
  EXPECT_FALSE(results.contains("fail"));
  EXPECT_GE(results.at("pass"), 14u);
}

// One process whose files nobody changed, or both of whose runs are the changed rank, as a world.
recorded::OneProcess one_of(const std::string& changed, uint64_t number) {
  recorded::RecordedRun run;
  run.ranks.push_back(recorded::read_rank(number % 3 == 0 ? changed : trained(0), "f"));
  run.ranks.front().world = 1;
  return {run, {run}};
}

TEST(Readers, AnyRecordedRunIsJudgedAndTracedOrRefusedByItsRecord) {
  const FrameInputs ranks({trained(0), trained(1)});
  Outcomes outcomes("recorded runs", "f");
  std::map<std::string_view, uint64_t> all;
  for (uint64_t number = 0; number < inputs(); ++number)
    outcomes.add(number, [&] {
      const auto run = run_of(ranks.at(number), number);
      const auto one = one_of(ranks.at(number), number);
      const bool is_compared = number % 4 == 0;
      for (const auto& [name, count] :
           results_in(recorded::judged(run, is_compared ? &one : nullptr)))
        all[name] += count;
      const auto timeline = recorded::timeline_of(run);
      EXPECT_FALSE(recorded::timeline_text(run, timeline).empty()) << number;
      std::ostringstream trace;
      recorded::write_trace(run, timeline, trace);
      EXPECT_TRUE(Json::accept(trace.str())) << number;
    });
  outcomes.report();
  for (const auto& [name, count] : all) std::cout << "  " << name << " " << count << "\n";
  EXPECT_GE(all.size(), 3u);
}

}  // namespace
}  // namespace lockstep::readers
