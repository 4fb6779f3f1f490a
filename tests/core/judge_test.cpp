#include "harness/core/scenario.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

struct Plain {
  WorldSpec world{.size = 2};
  static constexpr auto fields() { return std::tuple{field("world", &Plain::world)}; }
};

Findings no_finding(const Plain&, const History&) {
  return {};
}
Findings a_finding(const Plain&, const History&) {
  return {{"R", "p", "here", "text"}};
}
Findings not_seen(const Plain&, const History& h) {
  return h.rows("nowhere").empty() ? Findings{} : Findings{};
}
Findings throws(const Plain&, const History&) {
  throw std::runtime_error("broken check");
}
Findings refuses(const Plain&, const History&) {
  throw Refused("no reference");
}

Scenario with(Findings (*check)(const Plain&, const History&)) {
  return scenario<Plain>(
      {.name = "toy.x", .cases = rc::gen::just(Plain{}), .program = nullptr, .checks = {check}});
}

RankHistory ending(Ending ending) {
  RankHistory rank;
  rank.events.push_back({{0, "p"}, Observation{"x", int64_values({1})}});
  rank.ending = std::move(ending);
  rank.last = {0, "p"};
  return rank;
}

Verdict judged(std::vector<RankHistory> ranks,
               Findings (*check)(const Plain&, const History&) = no_finding) {
  const auto toy = with(check);
  return judge(toy, toy.smallest(), History(std::move(ranks)));
}

const Ending kReturned{Ending::Kind::returned, ""};
using Kind = Verdict::Kind;

TEST(Judge, what_holds_passes) {
  EXPECT_EQ(judged({ending(kReturned), ending(kReturned)}).kind, Kind::pass);
}

RankHistory reducing(Ending how, int64_t elements) {
  auto rank = ending(std::move(how));
  rank.events.push_back(
      {{0, "p"},
       Collective{.op = "allreduce", .group = "world", .dtype = "float32", .elements = elements}});
  return rank;
}

TEST(Judge, collectives_that_do_not_match_fail_though_every_rank_returned) {
  EXPECT_EQ(judged({reducing(kReturned, 2), reducing(kReturned, 2)}).kind, Kind::pass);
  const auto verdict = judged({reducing(kReturned, 2), reducing(kReturned, 3)});
  EXPECT_EQ(verdict.kind, Kind::fail);
  EXPECT_EQ(verdict.findings.at(0).pattern, "mismatched_collectives");
}

TEST(Judge, collectives_that_do_not_match_are_the_cause_of_a_crash_and_of_a_hang) {
  const Ending aborted{Ending::Kind::signalled, "SIGABRT"}, stuck{Ending::Kind::stuck, ""};
  for (const auto& end : {aborted, stuck}) {
    const auto verdict = judged({reducing(end, 2), reducing(end, 3)});
    EXPECT_EQ(verdict.findings.at(0).pattern, "mismatched_collectives");
    EXPECT_EQ(verdict.findings.at(0).text.find("collective #0 differs: rank 0 issued"), 0u);
  }
}

// Rank 0's collective failed since rank 1 had thrown by itself.
TEST(Judge, of_ranks_that_threw_the_one_that_no_collective_kept_is_named) {
  auto victim = reducing({Ending::Kind::threw, "connection reset"}, 2);
  const auto culprit = ending({Ending::Kind::threw, "its own mistake"});
  const auto verdict = judged({victim, culprit});
  EXPECT_EQ(verdict.kind, Kind::crash);
  EXPECT_EQ(verdict.findings.at(0).text.find("rank 1 threw: its own mistake"), 0u)
      << verdict.findings.at(0).text;
}

TEST(Judge, an_injection_that_never_strikes_is_inconclusive) {
  const auto toy = with(no_finding);
  const auto verdict_of = [&](int rank, bool strikes) {
    Plain planted;
    planted.world.injections = {{.kind = "delay", .rank = rank}};
    std::vector<RankHistory> ranks{ending(kReturned), ending(kReturned)};
    if (strikes) ranks[0].events.push_back({{0, "p"}, planted.world.injections.front()});
    return judge(toy, {toy.name, to_json(planted)}, History(ranks)).kind;
  };
  EXPECT_EQ(verdict_of(0, true), Kind::pass);
  EXPECT_EQ(verdict_of(0, false), Kind::inconclusive);
  EXPECT_EQ(verdict_of(7, false), Kind::inconclusive);
}

// They are drawn for cases of all kinds, also for those without a collective that could be late.
TEST(Judge, late_results_may_find_nothing_and_do_not_stand_for_what_did_not_strike) {
  const auto toy = with(no_finding);
  Plain planted;
  planted.world.injections = {{.kind = "late", .rank = 0}};
  std::vector<RankHistory> ranks{ending(kReturned), ending(kReturned)};
  EXPECT_EQ(judge(toy, {toy.name, to_json(planted)}, History(ranks)).kind, Kind::pass);
  ranks[0].events.push_back({{0, "p"}, planted.world.injections.front()});
  planted.world.injections.push_back({.kind = "delay", .rank = 0});
  EXPECT_EQ(judge(toy, {toy.name, to_json(planted)}, History(ranks)).kind, Kind::inconclusive);
}

TEST(Judge, a_hang_names_who_never_came) {
  const Ending stuck{Ending::Kind::stuck, ""};
  const auto verdict = judged({reducing(stuck, 2), ending(kReturned)});
  EXPECT_EQ(verdict.findings.at(0).text.find("rank 1 never issued collective #0"), 0u);
}

TEST(Judge, a_finding_fails) {
  const auto verdict = judged({ending(kReturned), ending(kReturned)}, a_finding);
  EXPECT_EQ(verdict.kind, Kind::fail);
  EXPECT_EQ(verdict.signature(), "fail: R [p]");
}

TEST(Judge, nothing_passes_vacuously) {
  RankHistory silent;
  EXPECT_EQ(judged({ending(kReturned), silent}).findings.at(0).pattern, "vacuous");
  EXPECT_EQ(judged({}).findings.at(0).pattern, "vacuous");
  EXPECT_EQ(judged({ending(kReturned)}).findings.at(0).pattern, "vacuous");
  EXPECT_EQ(judged({ending(kReturned), ending(kReturned)}, not_seen).findings.at(0).pattern,
            "vacuous");
}

TEST(Judge, a_check_that_throws_is_inconclusive) {
  EXPECT_EQ(judged({ending(kReturned), ending(kReturned)}, throws).kind, Kind::inconclusive);
}

TEST(Judge, a_case_without_a_reference_is_refused) {
  EXPECT_EQ(judged({ending(kReturned), ending(kReturned)}, refuses).kind, Kind::refused);
}

TEST(Judge, a_signal_explains_why_the_peers_threw) {
  const auto verdict = judged({ending({Ending::Kind::threw, "Connection closed"}),
                               ending({Ending::Kind::signalled, "SIGSEGV"})});
  EXPECT_EQ(verdict.kind, Kind::crash);
  EXPECT_EQ(verdict.findings.at(0).pattern, "signalled");
  EXPECT_NE(verdict.findings.at(0).text.find("rank 1 was ended by SIGSEGV"), std::string::npos);
}

TEST(Judge, leaving_with_status_zero_is_still_not_returning) {
  EXPECT_EQ(judged({ending(kReturned), ending({Ending::Kind::exited, "0"})}).kind, Kind::crash);
}

TEST(Judge, a_hang_names_who_is_stuck_and_what_each_rank_last_joined) {
  auto waits = ending({Ending::Kind::stuck, ""});
  waits.events.push_back(
      {{0, "p"}, Collective{"allreduce", "world", "float32", 7, 1536, -1, false}});
  const auto verdict = judged({waits, ending(kReturned)});
  EXPECT_EQ(verdict.kind, Kind::hang);
  EXPECT_NE(
      verdict.findings.at(0).text.find("last collective #7 allreduce of 1,536 float32, not done"),
      std::string::npos);
}

TEST(Judge, all_ranks_refuse_or_none) {
  const Ending refused{Ending::Kind::refused, "no wrap"};
  EXPECT_EQ(judged({ending(refused), ending(refused)}).kind, Kind::refused);
  EXPECT_EQ(judged({ending(refused), ending(kReturned)}).findings.at(0).pattern, "refused_by_some");
}

TEST(Judge, what_is_left_behind_is_a_leak) {
  auto leaves = ending(kReturned);
  leaves.events.push_back({{0, "p"}, LeftBehind{"a thread"}});
  EXPECT_EQ(judged({ending(kReturned), leaves}, a_finding).kind, Kind::leak);
}

TEST(Judge, endings_nobody_can_judge_are_inconclusive) {
  for (const auto kind : {Ending::Kind::overflowed, Ending::Kind::cut_off})
    EXPECT_EQ(judged({ending(kReturned), ending({kind, ""})}).kind, Kind::inconclusive);
}

// Both were in the same collective; the clock knows who failed first.
TEST(JudgeEndings, OfRanksThatThrewInOneCollectiveTheFirstInTimeIsNamed) {
  const Scenario any{.name = "any"};
  for (const size_t first : {0u, 1u}) {
    std::vector<RankHistory> ranks(2);
    for (size_t rank = 0; rank < 2; ++rank) {
      ranks[rank].events.push_back({{}, Collective{.op = "allreduce", .group = "world"}});
      ranks[rank].ending = {Ending::Kind::threw, "no", {rank == first ? 10 : 20}};
    }
    const auto verdict =
        judge(any, {"any", Json{{"world", {{"size", 2}}}}}, History(std::move(ranks)));
    EXPECT_EQ(verdict.findings.at(0).where.substr(0, 6), "rank " + std::to_string(first));
  }
}

}  // namespace
}  // namespace lockstep
