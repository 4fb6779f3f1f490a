// Frames and histories, which other programs may have written.
#include "harness/cases/scenario.h"
#include "harness/history/history_file.h"
#include "harness/recorded/case_history.h"
#include "harness/verdict/compare.h"
#include "reports/history.h"
#include "tests/readers/inputs.h"
#include "tests/readers/outcomes.h"

#include <gtest/gtest.h>

#include <cstring>
#include <iostream>
#include <map>

namespace lockstep::readers {
namespace {

struct Ranks {
  WorldSpec world{.size = 3};
  static constexpr auto fields() { return std::tuple{field("world", &Ranks::world)}; }
};

// Compares all that the ranks recorded with what rank 0 did, in both ways that there are.
Findings all_equal(const Ranks&, const History& history) {
  std::vector<Comparison> rows;
  for (const auto& row : history.rows("look"))
    rows.push_back({.row = row, .expected = {row.by_rank.front()}});
  auto findings = equal("Every rank must see what rank 0 sees", rows);
  findings += alike("All ranks must see the same", history.rows("look"));
  return findings;
}

Scenario all_alike() {
  return scenario<Ranks>({.name = "toys.all_alike",
                          .cases = rc::gen::just(Ranks{}),
                          .program = [](const Ranks&, RankContext&) {},
                          .checks = {all_equal},
                          .judges_endings = true});
}

TensorValue floats(const std::vector<float>& values) {
  TensorValue value{"float32", {static_cast<int64_t>(values.size())}, {}};
  value.bytes.resize(values.size() * sizeof(float));
  std::memcpy(value.bytes.data(), values.data(), value.bytes.size());
  return value;
}

// A rank that recorded something of every kind.
RankHistory eventful(int rank) {
  RankHistory history;
  const auto at = [&](Moment moment, auto what) {
    history.events.push_back({std::move(moment), std::move(what)});
  };
  at({0, "look"}, Observation{"x", floats({1, 2, rank == 2 ? 4.0F : 3.0F})});
  at({0, "look"}, Observation{"n", int64_values({1, 2})});
  at({0, "look"}, BucketLayout{{{{"w", "b"}, 3}, {{"odd \"name\""}, 3}}});
  at({0, "look"}, Collective{.op = "allreduce",
                             .group = "world",
                             .dtype = "float32",
                             .sequence = 0,
                             .elements = 3,
                             .done = true});
  at({1, "look"}, Observation{"x", floats({4, 5, 6})});
  at({1, "look"}, Collective{"broadcast", "world", "int64", 1, 3, 0, false});
  at({1, "look"}, Injection{InjectionKind::delay, rank, -1, {1, "look"}, 5});
  at({2, "end"}, LeftBehind{"a thread"});
  history.ending = {rank == 1 ? Ending::Kind::threw : Ending::Kind::returned, "no"};
  history.last = {3, "after"};
  return history;
}

FrameInputs frame_inputs() {
  std::vector<std::string> ranks;
  for (int rank = 0; rank < 3; ++rank) {
    auto frames = frames_in(frames_of(eventful(rank)));
    frames.frames.insert(
        frames.frames.begin(),
        {FrameKind::begin, {{"protocol", 1}, {"rank", rank}, {"world", 3}, {"case", "0"}}, {}});
    frames.frames.insert(frames.frames.begin() + 1,
                         {FrameKind::site, {{"site", 0}}, std::vector<std::byte>(24)});
    ranks.push_back(bytes_of(frames));
  }
  return FrameInputs(std::move(ranks));
}

TEST(Readers, AnyBytesAreReadAsFramesUpToAReason) {
  const auto ranks = frame_inputs();
  Outcomes outcomes("frames", "record ");
  for (uint64_t number = 0; number < inputs(); ++number)
    outcomes.add(number, [&] {
      const auto bytes = ranks.at(number);
      const auto frames = frames_in(bytes);
      const auto again = frames_in(bytes_of(frames));
      EXPECT_EQ(again.tail, "") << number;
      EXPECT_EQ(again.frames.size(), frames.frames.size()) << number;
      if (!frames.tail.empty()) throw FieldError(frames.tail);
    });
  outcomes.report();
}

// The ranks of a world, some with records that were changed.
TEST(Readers, AnyRecordsAreAHistoryThatIsJudgedOrAreRefusedByTheirRecord) {
  const auto ranks = frame_inputs();
  const auto scenario = all_alike();
  const auto c = scenario.smallest();
  const auto whole = frames_of(eventful(0));
  Outcomes outcomes("histories", "rank ");
  std::map<std::string_view, uint64_t> verdicts;
  for (uint64_t number = 0; number < inputs(); ++number)
    outcomes.add(number, [&] {
      std::vector<RankHistory> world;
      for (uint64_t rank = 0; rank < 3; ++rank) {
        const auto frames =
            frames_in(rank == number % 4 || number % 4 == 3 ? ranks.at(3 * number + rank) : whole);
        for (const auto& [site, addresses] : call_sites(frames))
          EXPECT_LT(addresses.size(), 1000u) << site;
        world.push_back(rank_history(frames, "rank " + std::to_string(rank)));
        const auto bytes = frames_of(world.back());
        EXPECT_EQ(frames_of(rank_history(frames_in(bytes), "again")), bytes) << number;
      }
      const History history(std::move(world));
      EXPECT_EQ(hash_of(history).size(), 16u);
      EXPECT_FALSE(reports::history_text(history).empty());
      const auto verdict = judge(scenario, c, history);
      ++verdicts[name_of(verdict.kind)];
      EXPECT_TRUE(verdict.kind == Verdict::Kind::pass || !verdict.findings.empty()) << number;
    });
  outcomes.report();
  for (const auto& [name, count] : verdicts) std::cout << "  " << name << " " << count << "\n";
  EXPECT_GE(verdicts.size(), 2u);
}

TEST(Readers, AnyHistoryOfACaseIsJudgedOrRefusedByItsRecord) {
  const auto scenario = all_alike();
  const auto c = scenario.smallest();
  std::vector<std::string> files;
  for (int rank = 0; rank < 3; ++rank)
    files.push_back(history_file(eventful(rank), {.rank = 0, .world = 3, .case_hash = hash_of(c)}));
  const FrameInputs inputs_of_rank(files);
  Outcomes outcomes("histories of a case", "f");
  for (uint64_t number = 0; number < inputs(); ++number)
    outcomes.add(number, [&] {
      const auto read = recorded::read_case_rank(inputs_of_rank.at(number), 0, c, "f");
      const History history({read, eventful(1), eventful(2)});
      EXPECT_FALSE(name_of(judge(scenario, c, history).kind).empty()) << number;
    });
  outcomes.report();
}

}  // namespace
}  // namespace lockstep::readers
