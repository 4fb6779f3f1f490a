#include "reports/fit.h"

#include "harness/base/text.h"
#include "reports/findings/text.h"
#include "reports/terminal.h"
#include "tests/reports/samples.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace lockstep::reports {
namespace {

using Lines = std::vector<std::string>;

Table table() {
  return std::get<Table>(samples::failing().worst.findings.front().details.at(1));
}

const Lines kTable{"    name          reference  rank 0  rank 1        ULP  ratio  ranks agree",
                   "    fc.bias[0]         -0.5    -0.5    -0.5          0  1.000          yes",
                   "    fc.weight[0]      0.125    0.25    0.25  8,388,608  2.000          yes  ◄"};

TEST(Fit, ATableLosesWholeColumnsAndShowsWhere) {
  EXPECT_EQ(lines_of(table(), {.columns = 60}, 4),
            (Lines{"    name          reference  rank 0  rank 1        ULP  …",
                   "    fc.bias[0]         -0.5    -0.5    -0.5          0  …",
                   "    fc.weight[0]      0.125    0.25    0.25  8,388,608  …  ◄",
                   "    … 2 columns left out: ratio, ranks agree"}));
}

TEST(Fit, RanksAreTheLastColumnsToGo) {
  EXPECT_EQ(lines_of(table(), {.columns = 38}, 4),
            (Lines{"    name          rank 0  rank 1  …", "    fc.bias[0]      -0.5    -0.5  …",
                   "    fc.weight[0]    0.25    0.25  …  ◄",
                   "    … 4 columns left out: reference, ULP, ratio, ranks agree"}));
  EXPECT_EQ(fitted(lines_of(table(), {.columns = 24}, 4), {.columns = 24}),
            (Lines{"    name          …", "    fc.bias[0]    …", "    fc.weight[0]  …  ◄",
                   "    … 6 columns left", "      out: reference,", "      rank 0, rank 1,",
                   "      ULP, ratio, ranks", "      agree"}));
}

TEST(Fit, OfTheRanksThatIsTheLastToGoWhichHoldsWhatFewDo) {
  Table ladder{{{"collective"}}, {{{{"#1 broadcast"}}}}};
  for (int rank = 0; rank < 4; ++rank) {
    ladder.columns.push_back({"rank " + std::to_string(rank), Table::Holds::value, rank});
    ladder.rows[0].cells.push_back({rank == 3 ? "missing" : "waits"});
  }
  EXPECT_EQ(lines_of(ladder, {.columns = 36}),
            (Lines{"collective    rank 0   rank 3  …", "#1 broadcast   waits  missing  …",
                   "… 2 columns left out: rank 1, rank 2"}));
}

TEST(Fit, BeforeARankGoesWhatIsInBrackets) {
  const Table ladder{
      {{"collective"}, {"rank 0", Table::Holds::value, 0}, {"rank 1", Table::Holds::value, 1}},
      {{{{"#1 allreduce (bucket 0 of 1: w)"}, {"done"}, {"missing"}}}}};
  EXPECT_EQ(lines_of(ladder, {.columns = 36}),
            (Lines{"collective    rank 0   rank 1", "#1 allreduce    done  missing"}));
}

TEST(Fit, JsonIsBrokenBehindCommasThatAreInNoString) {
  EXPECT_EQ(
      fitted({R"(  case   {"a":[1,2],"b":"x,\",y","c":{"d":1}})"}, {.columns = 24}),
      (Lines{R"(  case   {"a":[1,2],)", R"(         "b":"x,\",y",)", R"(         "c":{"d":1}})"}));
  EXPECT_EQ(fitted({R"(  drawn  ["float32","float64","int64"])"}, {.columns = 24}),
            (Lines{R"(  drawn  ["float32",)", R"(         "float64",)", R"(         "int64"])"}));
}

TEST(Fit, AWordTooWideForItsLabelStandsBelow) {
  EXPECT_EQ(fitted({"  libtorch   2.11 (/usr/lib/libtorch.so)"}, {.columns = 28}),
            (Lines{"  libtorch   2.11", "    (/usr/lib/libtorch.so)"}));
}

TEST(Fit, WhatFitsAndWhatIsForNoTerminalStaysAsItIs) {
  EXPECT_EQ(lines_of(table(), {.columns = 78}, 4), kTable);
  EXPECT_EQ(lines_of(table(), {}, 4), kTable);
  EXPECT_EQ(fitted(kTable, {.columns = 78}), kTable);
  EXPECT_EQ(fitted(kTable, {}), kTable);
}

TEST(Fit, ARowIsCutWithinANarrowTerminal) {
  EXPECT_EQ(fitted_row("  PASS   2.9s  sampler", {.columns = 5}), "  PA…");
  EXPECT_EQ(fitted_row("  PASS   2.9s  sampler", {.unicode = false, .columns = 2}), "..");
}

TEST(Fit, SentencesAreBrokenBetweenWordsAndLabelsStandAlone) {
  EXPECT_EQ(fitted({"  rank 1 waits in collective #2, which rank 0 completed",
                    "  case     world 2 · samples [1,2] · options.drop true",
                    "    | lockstep::Reducer::launch_all at launch.cpp:40"},
                   {.columns = 36}),
            (Lines{"  rank 1 waits in collective #2,", "    which rank 0 completed",
                   "  case     world 2 · samples [1,2] ·", "           options.drop true",
                   "    | lockstep::Reducer::launch_all", "    |   at launch.cpp:40"}));
  EXPECT_EQ(fitted({"  smallest case (31 cases tried in 0.1 s)"}, {.columns = 38}),
            (Lines{"  smallest case (31 cases tried in", "    0.1 s)"}))
      << "a unit stays with its number";
}

TEST(Fit, ACommandIsBrokenAsAShellReadsItAndAPathNever) {
  EXPECT_EQ(
      fitted({"  replay   ./lockstep replay .lockstep/failures/a_long_name-3f9c1a.json --tier sim"},
             {.columns = 40}),
      (Lines{"  replay   ./lockstep replay \\",
             "           .lockstep/failures/a_long_name-3f9c1a.json \\", "           --tier sim"}));
}

TEST(Fit, NothingOfAnyResultIsWiderThanTheTerminalButAPath) {
  std::vector<Result> results{samples::passing(), samples::shrunk(), samples::of_two_signatures()};
  for (const auto kind : {Result::Kind::hang, Result::Kind::inconclusive, Result::Kind::skip})
    results.push_back(samples::of_kind(kind));
  results.push_back(samples::failing());
  results.back().failure->stack = std::string(70, 'f') + " at launch.cpp:40";
  const auto run = samples::run_of(results);
  for (const bool plain : {true, false})
    for (size_t columns = 1; columns <= 120; ++columns) {
      const Style style{.colour = !plain, .unicode = !plain, .columns = columns};
      auto text = headline(run, style) + slowest(run, 3, style) + summary(run, style);
      for (const auto& result : results) text += result_text(result, run, columns_for(run), style);
      for (const auto& line : split(text, '\n')) {
        const size_t kept = line.ends_with('\\') ? 13 : 11;  // a label, and how a command continues
        const auto words = split(line, ' ');
        const bool has_long_word = std::any_of(words.begin(), words.end(), [&](const auto& word) {
          return width(word) + kept > columns;
        });
        EXPECT_TRUE(width(line) <= columns || has_long_word) << columns << ": " << line;
      }
    }
}

}  // namespace
}  // namespace lockstep::reports
