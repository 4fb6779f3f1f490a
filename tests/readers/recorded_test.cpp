// Recorded runs, which strangers may have written: read, judged and traced, or refused.
#include "harness/invariants/judge_run.h"
#include "harness/timeline/timeline.h"
#include "reports/github.h"
#include "reports/junit.h"
#include "reports/run_file.h"
#include "reports/terminal.h"
#include "tests/readers/inputs.h"
#include "tests/readers/outcomes.h"

#include <gtest/gtest.h>

#include <iostream>
#include <map>
#include <span>
#include <sstream>

namespace lockstep::readers {
namespace {

constexpr int kWorldSize = 2;

std::vector<std::byte> bytes_in(const std::vector<uint64_t>& words) {
  const auto bytes = std::as_bytes(std::span(words));
  return {bytes.begin(), bytes.end()};
}

constexpr int64_t kSampled = 16;  // elements of a tensor whose values are recorded

// The records of a rank, one after the other.
struct Records {
  Frames all;

  void add(int kind, const Json& header, const std::vector<uint64_t>& words = {}) {
    all.frames.push_back({static_cast<FrameKind>(kind), header, bytes_in(words)});
  }
  void fact(const std::string& name, const Json& values) {
    add(13, {{"name", name}, {"values", values}});
  }
  void moment(int step, const char* phase) { add(2, {{"step", step}, {"phase", phase}}); }
  void list(int number, const char* of, const char* role, const Json& tensors) {
    add(11, {{"list", number}, {"of", of}, {"role", role}, {"tensors", tensors}});
  }
  void digests(int list, const std::vector<uint64_t>& of) {
    constexpr uint64_t kOne = 0x3ff0000000000000;  // the norm of each
    std::vector<uint64_t> words;
    for (const auto digest : of) words.insert(words.end(), {digest, kOne});
    add(12, {{"list", list}}, words);
  }
  void values(const Json& header, size_t elements) {
    add(15, header);
    all.frames.back().payload.resize(elements * sizeof(float));
  }
  void collective(const char* op, int sequence, int64_t ns) {
    add(4, {{"op", op},
            {"group", "world"},
            {"dtype", "float32"},
            {"sequence", sequence},
            {"elements", 3},
            {"root", -1},
            {"ns", ns}});
    add(5, {{"group", "world"}, {"sequence", sequence}, {"ns", ns + 9}});
  }
};

// A wrapped model, one that is divided over the ranks, and tensors that no model has.
void begin(Records& records, int rank) {
  const Json w = Json::array({"w", "float32", {3}}), b = Json::array({"b", "float32", {2}}),
             part = Json::array({"v", "float32", {20}});
  records.add(1, {{"protocol", 1},
                  {"rank", rank},
                  {"world", kWorldSize},
                  {"program", "toy.py"},
                  {"torch", "2.11.0"},
                  {"clock", "a"}});
  records.fact("process group", {{"rank", rank}, {"world", 2}, {"backend", "gloo"}});
  records.moment(0, "construction");
  records.fact("model 0", {{"kind", "Net"},
                           {"dropouts", 1},
                           {"wrapped", true},
                           {"wrapper", "DistributedDataParallel"},
                           {"frozen", Json::array({"f"})},
                           {"tied", Json::array({Json::array({"w", "t"})})},
                           {"ignored", Json::array({"i"})}});
  records.fact("model 1", {{"kind", "Net"}, {"wrapper", "fully_shard"}});
  records.fact("shards",
               {{"of", "model 1"},
                {"tensors", Json::array({Json::array({"v", {40}, {20 * rank}, false})})}});
  records.fact("not recorded", {{"what", "buffers of model 1"}, {"because", "TypeError: x"}});
  records.list(0, "model 0", "parameters", Json::array({w, b}));
  records.list(1, "model 0", "gradients", Json::array({w, b}));
  records.list(2, "optimizer 0", "state",
               Json::array({Json::array({"model 0 w step", "int64", Json::array()})}));
  records.list(3, "model 0", "random", Json::array({Json::array({"generator", "uint8", {5056}})}));
  records.list(4, "model 0", "buffers", Json::array({w}));
  records.list(5, "model 1", "parameters", Json::array({part}));
  records.list(6, "optimizer 1", "gradients", Json::array({w}));
  records.list(7, "optimizer 1", "parameters", Json::array({w}));
  records.list(8, "model 0", "taken", Json::array({w}));
  records.digests(0, {7, 8});
  records.values({{"list", 0}}, 5);
  records.digests(5, {20 + static_cast<uint64_t>(rank)});
  records.values({{"list", 5}, {"elements", kSampled}}, kSampled);
}

void draw_batch(Records& records, int step, uint64_t rank) {
  records.moment(step, "data");
  records.fact("loader 0", {{"epoch", step},
                            {"length", 4},
                            {"of", "dataset 0"},
                            {"dataset", "TensorDataset"},
                            {"sampler", "DistributedSampler"},
                            {"sampler_of", "sampler object 0"},
                            {"batch_size", 2},
                            {"batches", 1},
                            {"workers", 2},
                            {"iterable", false},
                            {"drops_batch", false},
                            {"replicas", 2},
                            {"rank", rank},
                            {"shuffle", true},
                            {"seed", 0},
                            {"sampler_epoch", step},
                            {"drops", false},
                            {"fingerprint", "ab"}});
  records.add(3, {{"name", "loader 0"}, {"dtype", "int64"}, {"shape", {2}}}, {rank, rank + 2});
  const auto print = std::string(15, 'a') + std::to_string(rank);
  records.fact("batch", {{"loader", "loader 0"}, {"print", print}, {"row", {rank, print}}});
  records.fact("loader 0 exhausted", Json::object());
}

void update(Records& records, int step) {
  const auto number = static_cast<uint64_t>(step);
  records.moment(step, "update");
  records.digests(8, {number + 2});
  records.fact(
      "optimizer 0",
      {{"kind", "SGD"},
       {"groups", Json::array({{{"lr", 0.5}}})},
       {"owned", Json::array({Json::array({"model 0", "w"}), Json::array({"model 0", "b"})})},
       {"frozen", 1},
       {"divided", 0},
       {"foreign", 0}});
  records.add(12, {{"list", 2}}, {number, 0});
  records.digests(0, {number + 20, number + 21});
  records.digests(6, {number + 5});
  records.fact("optimizer 1",
               {{"kind", "SGD"}, {"groups", Json::array({{{"lr", 0.5}}})}, {"foreign", 1}});
  records.digests(7, {number + 30});
  records.fact("skipped", {{"optimizer", "optimizer 0"}, {"by", "GradScaler"}});
}

// A rank of a training of two steps that recorded something of every kind and role.
std::string trained(int rank) {
  Records records;
  begin(records, rank);
  for (int step = 0; step < 2; ++step) {
    const auto number = static_cast<uint64_t>(step), own = static_cast<uint64_t>(rank);
    const int64_t ns = 100 * step;
    draw_batch(records, step, own);
    records.moment(step, "forward");
    records.collective("ddp_buffers", 3 * step, ns + rank + 10);
    records.add(12, {{"list", 4}}, {number, 0});
    records.add(12, {{"list", 3}}, {10 * number + own, 0});
    records.add(14, {{"name", "forward"}, {"from", ns + 20}, {"ns", ns + 30}});
    records.fact("terms", {{"function", "cross_entropy"}, {"reduction", "mean"}, {"terms", 3}});
    records.moment(step, "backward");
    records.collective("ddp_backward", 3 * step + 1, ns + rank + 40);
    records.fact("backward", {{"model", "model 0"},
                              {"kind", "synchronised"},
                              {"loss", 0.5 + 0.25 * rank},
                              {"training", true},
                              {"kept", false},
                              {"forwards", 1},
                              {"changed", false}});
    records.digests(1, {number + 1, number + 2});
    records.values({{"list", 1}}, 5);
    records.fact("call", {{"at", "train.py:37 in log_loss"}});
    records.collective("allreduce", 3 * step + 2, ns + rank + 50);
    update(records, step);
    records.add(14, {{"name", "update"}, {"from", ns + 60}, {"ns", ns + 70}});
  }
  records.add(8, {{"kind", "returned"}, {"why", ""}, {"ns", 300}});
  return bytes_of(records.all);
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

// Checks what `judge` prints and writes, and that `report` reads it back.
void report(const Run& run) {
  const reports::Style plain;
  const auto columns = reports::columns_for(run);
  std::string shown = reports::headline(run, plain) + reports::summary(run, plain);
  for (const auto& result : run.results) shown += reports::result_text(result, run, columns, plain);
  EXPECT_FALSE((shown + reports::junit(run) + reports::step_summary(run)).empty());
  const auto text = reports::file_text(reports::run_json(run));
  EXPECT_EQ(reports::file_text(reports::run_json(reports::parse_run_file(text, "again"))), text);
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
      const auto judged = recorded::judged(run, is_compared ? &one : nullptr);
      for (const auto& [name, count] : results_in(judged)) all[name] += count;
      report(judged);
      const auto timeline = recorded::timeline_of(run);
      EXPECT_FALSE(recorded::timeline_details(run, timeline).empty()) << number;
      std::ostringstream trace;
      recorded::write_trace(run, timeline, trace);
      EXPECT_TRUE(Json::accept(trace.str())) << number;
    });
  outcomes.report();
  for (const auto& [name, count] : all) std::cout << "  " << name << " " << count << "\n";
  EXPECT_GE(all.size(), 3u);
}

// A rank that is killed leaves a part of its file, which nothing says more of than it holds.
TEST(Readers, AFileThatStopsAnywhereIsNeitherAPassNorAMistakeOfTheProgram) {
  const auto whole = trained(1);
  const auto records = frames_in(whole).frames.size();
  size_t refused = 0, judged = 0, before = 0;
  for (size_t size = 0; size < whole.size(); ++size) {
    const auto part = whole.substr(0, size);
    recorded::RecordedRun run{{recorded::read_rank(trained(0), "f"), {}}};
    try {
      run.ranks[1] = recorded::read_rank(part, "f");
    } catch (const FieldError& error) {
      ++refused;
      EXPECT_TRUE(std::string(error.what()).starts_with("f")) << error.what();
      continue;
    }
    const auto count = frames_in(part).frames.size();
    EXPECT_LT(count, records);
    if (count == before) continue;  // the same records
    before = count;
    ++judged;
    const auto result = recorded::judged(run);
    report(result);
    const auto results = results_in(result);
    EXPECT_FALSE(results.contains("fail")) << size;
    EXPECT_EQ(result.results.front().kind, Result::Kind::inconclusive) << size;
    const auto timeline = recorded::timeline_of(run);
    EXPECT_FALSE(recorded::timeline_details(run, timeline).empty()) << size;
  }
  std::cout << "  " << refused << " refused, " << judged << " judged\n";
  EXPECT_EQ(judged + 1, records);
}

}  // namespace
}  // namespace lockstep::readers
