#include "harness/cases/scenario.h"
#include "reports/findings/text.h"

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

TEST(Judge, WhatHoldsPasses) {
  EXPECT_EQ(judged({ending(kReturned), ending(kReturned)}).kind, Kind::pass);
}

Findings a_finding_at_a_moment(const Plain&, const History&) {
  return {{"R", "p", {{0, "p"}, "x"}, "text"}};
}

TEST(Judge, WhatWasWrongBeforeABadEndingStandsBehindIt) {
  auto ended = ending({Ending::Kind::threw, "no"});
  const auto there = judged({ending(kReturned), ended}, a_finding_at_a_moment);
  EXPECT_EQ(there.findings.size(), 1u) << "the ranks ended in the moment of the finding";
  ended.last = {1, "q"};
  auto other = ending(kReturned);
  other.last = {1, "q"};
  const auto past = judged({other, ended}, a_finding_at_a_moment);
  ASSERT_EQ(past.findings.size(), 2u);
  EXPECT_EQ(past.kind, Kind::crash);
  EXPECT_EQ(past.findings[0].pattern, "threw");
  EXPECT_EQ(past.findings[1].rule, "R");
  EXPECT_EQ(judged({other, ended}, throws).findings.size(), 1u);
}

RankHistory reducing(Ending how, int64_t elements) {
  auto rank = ending(std::move(how));
  rank.events.push_back(
      {{0, "p"},
       Collective{.op = "allreduce", .group = "world", .dtype = "float32", .elements = elements}});
  return rank;
}

TEST(Judge, CollectivesThatDoNotMatchFailThoughEveryRankReturned) {
  EXPECT_EQ(judged({reducing(kReturned, 2), reducing(kReturned, 2)}).kind, Kind::pass);
  const auto verdict = judged({reducing(kReturned, 2), reducing(kReturned, 3)});
  EXPECT_EQ(verdict.kind, Kind::fail);
  EXPECT_EQ(verdict.findings.at(0).pattern, "mismatched_collectives");
}

TEST(Judge, CollectivesThatDoNotMatchAreTheCauseOfACrashAndOfAHang) {
  const Ending aborted{Ending::Kind::signalled, "SIGABRT"}, stuck{Ending::Kind::stuck, ""};
  for (const auto& end : {aborted, stuck}) {
    const auto verdict = judged({reducing(end, 2), reducing(end, 3)});
    EXPECT_EQ(verdict.findings.at(0).pattern, "mismatched_collectives");
    EXPECT_EQ(verdict.findings.at(0).diagnosis.find("collective #0 differs: rank 0 issued"), 0u);
  }
}

// Rank 0's collective failed since rank 1 had thrown an error of its own.
TEST(Judge, OfRanksThatThrewTheOneThatNoCollectiveKeptIsNamed) {
  auto victim = reducing({Ending::Kind::threw, "connection reset"}, 2);
  const auto culprit = ending({Ending::Kind::threw, "its own mistake"});
  const auto verdict = judged({victim, culprit});
  EXPECT_EQ(verdict.kind, Kind::crash);
  EXPECT_EQ(verdict.findings.at(0).diagnosis.find("rank 1 threw: its own mistake"), 0u)
      << verdict.findings.at(0).diagnosis;
}

TEST(Judge, AnInjectionThatNeverStrikesIsInconclusive) {
  const auto toy = with(no_finding);
  const auto verdict_of = [&](int rank, bool strikes) {
    Plain planted;
    planted.world.injections = {{.kind = InjectionKind::delay, .rank = rank}};
    std::vector<RankHistory> ranks{ending(kReturned), ending(kReturned)};
    if (strikes) ranks[0].events.push_back({{0, "p"}, planted.world.injections.front()});
    return judge(toy, {toy.name, to_json(planted)}, History(ranks)).kind;
  };
  EXPECT_EQ(verdict_of(0, true), Kind::pass);
  EXPECT_EQ(verdict_of(0, false), Kind::inconclusive);
  EXPECT_EQ(verdict_of(7, false), Kind::inconclusive);
}

// They are drawn for cases of all kinds, also for those without a collective that could be late.
TEST(Judge, LateResultsMayFindNothingAndDoNotStandForWhatDidNotStrike) {
  const auto toy = with(no_finding);
  Plain planted;
  planted.world.injections = {{.kind = InjectionKind::late, .rank = 0}};
  std::vector<RankHistory> ranks{ending(kReturned), ending(kReturned)};
  EXPECT_EQ(judge(toy, {toy.name, to_json(planted)}, History(ranks)).kind, Kind::pass);
  ranks[0].events.push_back({{0, "p"}, planted.world.injections.front()});
  planted.world.injections.push_back({.kind = InjectionKind::delay, .rank = 0});
  EXPECT_EQ(judge(toy, {toy.name, to_json(planted)}, History(ranks)).kind, Kind::inconclusive);
}

TEST(Judge, AHangNamesWhoNeverCame) {
  const Ending stuck{Ending::Kind::stuck, ""};
  const auto verdict = judged({reducing(stuck, 2), ending(kReturned)});
  EXPECT_EQ(verdict.findings.at(0).diagnosis.find("rank 1 never issued collective #0"), 0u);
}

// Rank 1's part of #0 never left it; it went on, and waits in #1.
TEST(Judge, AHangNamesTheFirstCollectiveThatIsNotDoneEverywhere) {
  const Ending stuck{Ending::Kind::stuck, ""};
  auto waits = reducing(stuck, 2), dropped = reducing(stuck, 2);
  std::get<Collective>(dropped.events.back().what).done = true;
  const Injection drop{.kind = InjectionKind::drop, .rank = 1, .collective = 0};
  dropped.events.insert(dropped.events.end() - 1, {{0, "p"}, drop});
  dropped.events.push_back(
      {{0, "p"},
       Collective{.op = "allreduce", .group = "world", .dtype = "float32", .sequence = 1}});
  const auto text = reports::text_of(judged({waits, dropped}).findings.at(0));
  EXPECT_TRUE(text.starts_with(
      "rank 0 waits in collective #0, allreduce of 2 float32, which rank 1 completed; ranks 0, 1 "
      "did not return inside the deadline"))
      << text;
  EXPECT_NE(text.find("injected: drop at collective #0"), std::string::npos) << text;
}

// A difference behind a collective that is not done is a consequence, too.
TEST(Judge, AHangNamesWhatCameBeforeADifference) {
  const Ending stuck{Ending::Kind::stuck, ""};
  auto a = reducing(stuck, 2), b = reducing(stuck, 2);
  std::get<Collective>(b.events.back().what).done = true;
  for (auto* rank : {&a, &b})
    rank->events.push_back({{0, "p"},
                            Collective{.op = "allreduce",
                                       .group = "world",
                                       .dtype = "float32",
                                       .sequence = 1,
                                       .elements = rank == &a ? 3 : 4}});
  const auto finding = judged({a, b}).findings.at(0);
  EXPECT_TRUE(finding.diagnosis.starts_with("rank 0 waits in collective #0")) << finding.diagnosis;
  EXPECT_EQ(finding.pattern, "stuck");
}

TEST(Judge, AFindingFails) {
  const auto verdict = judged({ending(kReturned), ending(kReturned)}, a_finding);
  EXPECT_EQ(verdict.kind, Kind::fail);
  EXPECT_EQ(verdict.signature(), "fail: R [p]");
}

TEST(Judge, ACauseThatTheCaseShowsReplacesThePatterns) {
  auto toy = with(a_finding);
  toy.cause = [](const Case& c, std::string_view pattern) {
    return pattern == "p" ? "a world of " + std::to_string(world_size(c)) : "";
  };
  const auto cause_of = [&](Findings (*check)(const Plain&, const History&)) {
    toy.checks = with(check).checks;
    const History history({ending(kReturned), ending(kReturned)});
    return judge(toy, toy.smallest(), history).findings.front().cause;
  };
  EXPECT_EQ(cause_of(a_finding), "a world of 2");
  EXPECT_EQ(cause_of(throws), "") << "of another pattern";
}

TEST(Judge, NothingPassesVacuously) {
  RankHistory silent;
  EXPECT_EQ(judged({silent, silent}).findings.at(0).pattern, "vacuous");
  EXPECT_EQ(judged({}).findings.at(0).pattern, "vacuous");
  EXPECT_EQ(judged({ending(kReturned)}).findings.at(0).pattern, "vacuous");
}

TEST(Judge, ARankThatRecordedLessThanOthersLeadsTheStory) {
  const auto finding = judged({ending(kReturned), RankHistory{}}).findings.at(0);
  EXPECT_EQ(finding.pattern, "recorded_less");
  EXPECT_TRUE(finding.diagnosis.starts_with("rank 1 recorded no observation; it recorded nothing"))
      << finding.diagnosis;
}

Findings x_and_y(const Plain&, const History& h) {
  h.row({0, "p"}, "x");
  h.row({0, "p"}, "y");
  return {};
}

TEST(Judge, ARecordThatOneRankLacksIsReportedWithWhatThatRankDid) {
  auto has = ending(kReturned);
  has.events.push_back({{0, "p"}, Observation{"y", int64_values({1})}});
  const auto finding = judged({has, ending(kReturned)}, x_and_y).findings.at(0);
  EXPECT_EQ(finding.rule, "Every rank must record what the case is judged on");
  EXPECT_TRUE(finding.diagnosis.starts_with(
      "rank 1 never recorded y at step 0, p, which rank 0 did; its last record is x, at step 0, p"))
      << finding.diagnosis;
}

// Where the checks judge endings they may ask for what a rank that ended early does not have.
TEST(Judge, ARankThatEndedOtherwiseIsTheVerdictWhereItsRecordIsMissing) {
  auto toy = with(x_and_y);
  toy.judges_endings = true;
  auto has = ending(kReturned);
  has.events.push_back({{0, "p"}, Observation{"y", int64_values({1})}});
  const auto ended = [&](Ending how) {
    return judge(toy, toy.smallest(), History({has, ending(std::move(how))}));
  };
  const auto stuck = ended({Ending::Kind::stuck, ""});
  EXPECT_EQ(stuck.kind, Kind::hang);
  EXPECT_EQ(stuck.findings.at(0).diagnosis, "rank 1 did not return inside the deadline");
  const auto crashed = ended({Ending::Kind::signalled, "SIGSEGV"});
  EXPECT_EQ(crashed.kind, Kind::crash);
  EXPECT_EQ(crashed.findings.at(0).diagnosis, "rank 1 was ended by SIGSEGV, at step 0, p");
}

TEST(Judge, WhatACheckFoundLeadsBeforeWhatAnotherOneLacked) {
  const auto toy = scenario<Plain>({.name = "toy.x",
                                    .cases = rc::gen::just(Plain{}),
                                    .program = nullptr,
                                    .checks = {not_seen, a_finding}});
  const auto verdict = judge(toy, toy.smallest(), History({ending(kReturned), ending(kReturned)}));
  EXPECT_EQ(verdict.signature(), "fail: R [p]");
}

TEST(Judge, ACheckThatThrowsIsInconclusive) {
  EXPECT_EQ(judged({ending(kReturned), ending(kReturned)}, throws).kind, Kind::inconclusive);
}

TEST(Judge, ACaseWithoutAReferenceIsRefused) {
  EXPECT_EQ(judged({ending(kReturned), ending(kReturned)}, refuses).kind, Kind::refused);
}

TEST(Judge, ASignalExplainsWhyThePeersThrew) {
  const auto verdict = judged({ending({Ending::Kind::threw, "Connection closed"}),
                               ending({Ending::Kind::signalled, "SIGSEGV"})});
  EXPECT_EQ(verdict.kind, Kind::crash);
  EXPECT_EQ(verdict.findings.at(0).pattern, "signalled");
  EXPECT_NE(verdict.findings.at(0).diagnosis.find("rank 1 was ended by SIGSEGV"),
            std::string::npos);
}

TEST(Judge, ARankWithoutRoomExplainsWhyThePeersThrewOrWaited) {
  for (const auto kind : {Ending::Kind::threw, Ending::Kind::stuck}) {
    const auto verdict =
        judged({ending({kind, "no peer"}), ending({Ending::Kind::overflowed, "the disk is full"})});
    EXPECT_EQ(verdict.kind, Kind::inconclusive);
    EXPECT_TRUE(
        verdict.findings.at(0).diagnosis.starts_with("rank 1 had no room: the disk is full"));
  }
}

TEST(Judge, LeavingWithStatusZeroIsStillNotReturning) {
  EXPECT_EQ(judged({ending(kReturned), ending({Ending::Kind::exited, "0"})}).kind, Kind::crash);
}

TEST(Judge, AHangNamesWhoIsStuckAndWhatEachRankLastJoined) {
  auto waits = ending({Ending::Kind::stuck, ""});
  waits.events.push_back(
      {{0, "p"}, Collective{"allreduce", "world", "float32", 7, 1536, -1, false}});
  const auto verdict = judged({waits, ending(kReturned)});
  EXPECT_EQ(verdict.kind, Kind::hang);
  const auto text = reports::text_of(verdict.findings.at(0));
  EXPECT_NE(text.find("last collective #7 allreduce of 1,536 float32, not done"), text.npos);
}

TEST(Judge, AllRanksRefuseOrNone) {
  const Ending refused{Ending::Kind::refused, "no wrap"};
  EXPECT_EQ(judged({ending(refused), ending(refused)}).kind, Kind::refused);
  const auto some = judged({ending(refused), ending(kReturned)}).findings.at(0);
  EXPECT_EQ(some.pattern, "refused_by_some");
  EXPECT_TRUE(some.diagnosis.starts_with("rank 0 refused (no wrap), the others did not"))
      << some.diagnosis;
}

TEST(Judge, WhatIsLeftBehindIsALeak) {
  auto leaves = ending(kReturned);
  leaves.events.push_back({{0, "p"}, LeftBehind{"a thread"}});
  EXPECT_EQ(judged({ending(kReturned), leaves}, a_finding).kind, Kind::leak);
}

TEST(Judge, EndingsNobodyCanJudgeAreInconclusive) {
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
    EXPECT_EQ(verdict.findings.at(0).where.text().substr(0, 6), "rank " + std::to_string(first));
  }
}

}  // namespace
}  // namespace lockstep
