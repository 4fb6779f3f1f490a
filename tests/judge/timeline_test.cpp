#include "harness/timeline/timeline.h"

#include "reports/findings/text.h"

#include <gtest/gtest.h>

#include <sstream>

namespace lockstep::recorded {
namespace {

constexpr int64_t kMs = 1'000'000;

Event collective(const std::string& op, int64_t sequence, int64_t from, int64_t to,
                 int64_t elements = 1000) {
  return {{},
          Collective{.op = op,
                     .group = "world",
                     .dtype = "float32",
                     .sequence = sequence,
                     .elements = elements,
                     .done = to >= 0,
                     .times = {from, to}}};
}

Record span(int step, const char* name, int64_t from, int64_t to) {
  return {{step, name}, Span{name, from, to}};
}

// Rank 1 is late by 10 ms at collective 0, rank 0 by 1 ms at collective 1; both fall into backward.
RecordedRun two_ranks() {
  RecordedRun run;
  for (const int number : {0, 1}) {
    const int64_t late = number == 1 ? 10 * kMs : 0;
    Rank rank{.is_there = true, .number = number, .world = 2, .program = "toy.py", .clock = "a"};
    rank.records = {span(0, "data", kMs, 2 * kMs), span(0, "forward", 2 * kMs, 5 * kMs),
                    span(0, "backward", 5 * kMs, 40 * kMs), span(0, "update", 41 * kMs, 43 * kMs),
                    span(1, "update", 50 * kMs, 51 * kMs)};
    rank.history.events = {collective("allreduce", 0, 10 * kMs + late, 25 * kMs),
                           collective("allreduce", 1, (number == 0 ? 31 : 30) * kMs, 38 * kMs, 500),
                           collective("barrier", 2, 44 * kMs, 46 * kMs, 0)};
    run.ranks.push_back(std::move(rank));
  }
  return run;
}

std::string text_of(const RecordedRun& run) {
  std::string text;
  for (const auto& line : reports::lines_of(timeline_details(run, timeline_of(run))))
    text += line + "\n";
  return text;
}

Json trace_of(const RecordedRun& run) {
  std::ostringstream out;
  write_trace(run, timeline_of(run), out);
  return Json::parse(out.str());
}

std::vector<Json> events_of(const Json& trace, const std::string& kind, int rank) {
  std::vector<Json> events;
  for (const auto& event : trace["traceEvents"])
    if (event["ph"] == kind && event["pid"] == rank) events.push_back(event);
  return events;
}

TEST(Timeline, SaysWhichRankWaitedForWhich) {
  const auto timeline = timeline_of(two_ranks());
  const auto& first = timeline.ranks[0].collectives;
  EXPECT_EQ(first[0].waited_ns, 10 * kMs);
  EXPECT_EQ(first[0].last_rank, 1);
  EXPECT_EQ(first[1].waited_ns, 0);
  EXPECT_EQ(timeline.ranks[1].collectives[0].waited_ns, 0);
  EXPECT_EQ(timeline.ranks[1].collectives[1].waited_ns, kMs);
  EXPECT_EQ(timeline.ranks[1].collectives[1].last_rank, 0);
}

TEST(Timeline, SaysWhichModelWasReducedMoreOftenThanItWasUpdated) {
  auto run = two_ranks();
  const auto add = [&](const char* model, int backwards) {
    for (int n = 0; n < backwards; ++n)
      run.ranks[0].records.push_back(
          {{0, "backward"}, Fact{"backward", {{"model", model}, {"kind", "synchronised"}}}});
    run.ranks[0].records.push_back(
        {{0, "update"},
         Fact{"optimizer 0", {{"owned", Json::array({Json::array({model, "w"})})}}}});
  };
  add("model 0", 1);
  EXPECT_EQ(text_of(run).find("was reduced"), std::string::npos);
  add("model 1", 4);
  EXPECT_NE(text_of(run).find("model 0 was reduced in 1 backward\n"), std::string::npos);
  EXPECT_NE(text_of(run).find("model 1 was reduced in 4 backwards, where 1 update needed 1"),
            std::string::npos);
}

TEST(Timeline, LetsARankThatIsDoneEarlyWaitNoLonger) {
  auto run = two_ranks();
  std::get<Collective>(run.ranks[0].history.events[0].what).times.done_ns = 14 * kMs;
  EXPECT_EQ(timeline_of(run).ranks[0].collectives[0].waited_ns, 4 * kMs);
}

TEST(Timeline, ComparesNoTimesOfTwoMachines) {
  auto run = two_ranks();
  run.ranks[1].clock = "b";
  EXPECT_EQ(timeline_of(run).ranks[0].collectives[0].last_rank, -1);
  EXPECT_NE(text_of(run).find("which rank waited for which is unknown"), std::string::npos);
  EXPECT_EQ(text_of(run).find("from the first record"), std::string::npos);
}

TEST(Timeline, AsksNobodyWhereRanksIssuedDifferentCollectivesOrARankNone) {
  auto other = two_ranks();
  std::get<Collective>(other.ranks[1].history.events[0].what).op = "broadcast";
  EXPECT_EQ(timeline_of(other).ranks[0].collectives[0].last_rank, -1);
  auto none = two_ranks();
  none.ranks[1].history.events.pop_back();
  EXPECT_EQ(timeline_of(none).ranks[0].collectives[2].last_rank, -1);
  EXPECT_EQ(timeline_of(none).ranks[0].collectives[0].last_rank, 1);
}

TEST(Timeline, CallsCommunicationExposedOnceNothingIsLeftToCompute) {
  const auto overlap = overlap_of(timeline_of(two_ranks()).ranks[0]);
  EXPECT_EQ(overlap.collectives, 2u);
  EXPECT_EQ(overlap.overlapped_ns, 15 * kMs);
  EXPECT_EQ(overlap.exposed_ns, 7 * kMs);
}

TEST(Timeline, CountsWhatTwoCollectivesShareOnce) {
  auto run = two_ranks();
  std::get<Collective>(run.ranks[0].history.events[0].what).times.done_ns = 35 * kMs;
  const auto overlap = overlap_of(timeline_of(run).ranks[0]);
  EXPECT_EQ(overlap.overlapped_ns, 21 * kMs);
  EXPECT_EQ(overlap.exposed_ns, 7 * kMs);
}

TEST(Timeline, HasAStepFromUpdateToUpdate) {
  const auto steps = timeline_of(two_ranks()).ranks[0].steps;
  ASSERT_EQ(steps.size(), 2u);
  EXPECT_EQ(steps[0].from_ns, kMs);
  EXPECT_EQ(steps[0].to_ns, 43 * kMs);
  EXPECT_EQ(steps[1].from_ns, 43 * kMs);
  EXPECT_EQ(steps[1].to_ns, 51 * kMs);
}

TEST(Timeline, IsATableForPeople) {
  EXPECT_EQ(text_of(two_ranks()),
            "toy.py, 2 ranks, 50.0 ms from the first record to the last\n"
            "\n"
            "collectives  number  sent by a rank  time of a rank  of it waiting for the last\n"
            "allreduce         2         6.00 kB         17.5 ms                     5.50 ms\n"
            "barrier           1          0.00 B         2.00 ms                     0.00 us\n"
            "\n"
            "time    updates     data  forward  backward   update  overlapped  exposed\n"
            "rank 0        2  1.00 ms  3.00 ms   35.0 ms  3.00 ms     15.0 ms  7.00 ms\n"
            "rank 1        2  1.00 ms  3.00 ms   35.0 ms  3.00 ms     5.00 ms  8.00 ms\n"
            "\n"
            "rank 0 waited 10.0 ms for rank 1, in 1 collective\n"
            "rank 1 waited 1.00 ms for rank 0, in 1 collective\n");
}

TEST(Timeline, CallsWhatWasNotRecordedUnknown) {
  auto run = two_ranks();
  for (auto& rank : run.ranks) {
    rank.history.events = {collective("ddp_backward", 0, 5 * kMs, -1)};
    std::get<Collective>(rank.history.events[0].what).dtype = "parameters";
  }
  const auto text = text_of(run);
  EXPECT_NE(text.find("ddp_backward       1         unknown         0.00 us"), std::string::npos)
      << text;
  EXPECT_NE(text.find("2 not known to be done"), std::string::npos) << text;
  EXPECT_NE(text.find("3.00 ms     unknown  unknown\n"), std::string::npos) << text;
  EXPECT_NE(text.find("its recorder does not see"), std::string::npos) << text;
  std::erase_if(run.ranks[0].records,
                [](const Record& record) { return std::get<Span>(record.what).name == "forward"; });
  EXPECT_NE(text_of(run).find("rank 0        2  1.00 ms  unknown"), std::string::npos);
  run.ranks.resize(1);
  run.ranks[0].history.events.clear();
  EXPECT_NE(text_of(run).find("no collective was recorded with its time"), std::string::npos);
}

TEST(Timeline, LeavesOutTimesThatNoClockShows) {
  auto run = two_ranks();
  auto& times = std::get<Collective>(run.ranks[0].history.events[0].what).times;
  times = {std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::min()};
  const auto timeline = timeline_of(run);
  EXPECT_EQ(timeline.ranks[0].collectives.size(), 2u);
  EXPECT_EQ(timeline.ranks[1].collectives[0].last_rank, -1);
  EXPECT_EQ(timeline.end_ns, 51 * kMs);
}

TEST(TraceFile, HasAProcessARankAndItsTracks) {
  const auto trace = trace_of(two_ranks());
  const auto names = events_of(trace, "M", 1);
  EXPECT_EQ(names[0]["args"]["name"], "rank 1");
  const auto spans = events_of(trace, "X", 1);
  ASSERT_EQ(spans.size(), 7u);
  EXPECT_EQ(spans[0]["name"], "step 0");
  EXPECT_EQ(spans[0]["ts"], 0.0);
  EXPECT_EQ(spans[0]["dur"], 42000.0);
  EXPECT_EQ(spans[2]["name"], "data");
  const auto begins = events_of(trace, "b", 0), ends = events_of(trace, "e", 0);
  ASSERT_EQ(begins.size(), 3u);
  ASSERT_EQ(ends.size(), 3u);
  EXPECT_EQ(begins[0]["id"], ends[0]["id"]);
  EXPECT_NE(begins[0]["id"], begins[1]["id"]);
  EXPECT_NE(begins[0]["id"], events_of(trace, "b", 1)[0]["id"]);
  EXPECT_EQ(begins[0]["args"]["last"], "rank 1");
  EXPECT_EQ(begins[0]["args"]["waited_us"], 10000.0);
}

TEST(TraceFile, ShowsACollectiveThatNeverEnded) {
  auto run = two_ranks();
  std::get<Collective>(run.ranks[0].history.events[2].what).done = false;
  const auto trace = trace_of(run);
  EXPECT_EQ(events_of(trace, "e", 0).size(), 2u);
  EXPECT_EQ(events_of(trace, "b", 0)[2]["args"]["end"], "not known to be done");
}

}  // namespace
}  // namespace lockstep::recorded
