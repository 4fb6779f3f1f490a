#include "harness/cases/explain.h"

#include "tests/campaign/planted.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

using planted::Planted;
using planted::PlantedTrials;

std::map<std::string, FieldNote> notes_of(const Planted& smallest,
                                          bool (*strikes)(const Planted&)) {
  PlantedTrials trials([&](const Case& c) { return strikes(planted::typed(c)); });
  Search search(trials);
  search.allow(TrialTime::max(), 10'000);
  std::map<std::string, FieldNote> notes;
  for (auto& note : explain(planted::scenario_of_planted(), planted::erased(smallest), search)) {
    EXPECT_EQ(note.any, note.passes.empty()) << note.path;
    notes[note.path] = std::move(note);
  }
  return notes;
}

TEST(Explain, ANumberHasItsNearestValuesThatPass) {
  const auto notes =
      notes_of({.world = {.size = 3}, .steps = 5, .bucket_cap = 4}, [](const Planted& c) {
        return c.world.size >= 3 && c.steps % 2 == 1 && c.steps > 3 && c.bucket_cap > 0 &&
               c.bucket_cap < 25;
      });
  EXPECT_EQ(notes.at("world.size").passes, "up to 2");
  EXPECT_EQ(notes.at("steps").passes, "up to 4 and with 6");
  EXPECT_EQ(notes.at("bucket_cap").passes, "with 0 and from 25 on");
  EXPECT_EQ(notes.at("bucket_cap").value, 4);
}

TEST(Explain, AFieldThatMayHoldAnythingIsSaidToHoldAnything) {
  const auto notes = notes_of({.world = {.size = 2}}, [](const Planted& c) {
    return c.world.size >= 2 && c.values == planted::Values::exact && !c.as_view;
  });
  for (const auto* path :
       {"steps", "layers", "parts", "micro_batches", "bucket_cap", "find_unused", "hook", "seed"})
    EXPECT_TRUE(notes.at(path).any) << path;
  EXPECT_EQ(notes.at("values").passes, "with real");
  EXPECT_EQ(notes.at("as_view").passes, "with true");
  EXPECT_FALSE(notes.contains("world.injections")) << "the case has none";
  EXPECT_FALSE(notes.contains("world.schedule.seed"));
}

TEST(Explain, AListHasTheNearestOneThatPasses) {
  const auto notes = notes_of(
      {.world = {.injections = {{.kind = InjectionKind::kill, .rank = 1}}, .size = 2},
       .parts = {1, 0}},
      [](const Planted& c) {
        return c.world.injections.size() == 1 && c.parts.size() >= 2 && c.parts[0] > c.parts[1];
      });
  EXPECT_EQ(notes.at("parts").passes, "with [0,0]");
  EXPECT_EQ(notes.at("world.injections").passes, "with []");
  EXPECT_TRUE(notes.at("world.size").any);
}

TEST(Explain, AValueThatFailsOtherwiseNeitherPassesNorIsAnything) {
  struct Other : Trials {
    std::vector<std::optional<Outcome>> run(const std::vector<Case>& cases, Outcome,
                                            TrialTime) override {
      return std::vector<std::optional<Outcome>>(cases.size(), Outcome::other);
    }
  } trials;
  Search search(trials);
  search.allow(TrialTime::max(), 10'000);
  EXPECT_TRUE(explain(planted::scenario_of_planted(), planted::erased({}), search).empty());
}

TEST(Explain, ValuesOutsideThePreconditionAreNotTried) {
  auto scenario = planted::scenario_of_planted();
  scenario.unmet_precondition = [](const Case& c) {
    return planted::typed(c).steps % 2 == 0 ? "" : "steps must be even";
  };
  PlantedTrials trials([&](const Case& c) {
    EXPECT_TRUE(scenario.unmet_precondition(c).empty()) << c.value.dump();
    return planted::typed(c).steps < 10;
  });
  Search search(trials);
  search.allow(TrialTime::max(), 10'000);
  const auto notes = explain(scenario, planted::erased({.steps = 4}), search);
  EXPECT_GT(trials.runs, 20);
  const auto steps = std::find_if(notes.begin(), notes.end(),
                                  [](const FieldNote& note) { return note.path == "steps"; });
  ASSERT_NE(steps, notes.end());
  EXPECT_FALSE(steps->any);
}

TEST(Explain, WithoutTimeThereIsNoNote) {
  PlantedTrials trials([](const Case&) { return true; });
  Search search(trials);
  search.allow(TrialTime::max(), 0);
  EXPECT_TRUE(explain(planted::scenario_of_planted(), planted::erased({}), search).empty());
}

// Whatever fails: a note that says "with X" or "any" is true of the cases that it is about.
TEST(Explain, EveryNoteOfAPlantedBugIsTrue) {
  for (const auto& bug : planted::bugs()) {
    const auto notes = notes_of(bug.smallest, bug.strikes);
    for (const auto& [path, note] : notes) {
      if (!note.passes.starts_with("with ") || note.passes.find(" and ") != std::string::npos)
        continue;
      auto value = to_json(bug.smallest);
      value = with_value(value, path, note.passes.substr(5));
      EXPECT_FALSE(bug.strikes(from_json<Planted>(value, "case"))) << bug.name << ": " << path;
    }
    EXPECT_FALSE(notes.empty()) << bug.name;
  }
}

}  // namespace
}  // namespace lockstep
