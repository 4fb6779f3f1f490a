// Case files and run files, which other programs may have written.
#include "harness/archive/merge.h"
#include "harness/base/parse_json.h"
#include "harness/cases/scenario.h"
#include "reports/github.h"
#include "reports/junit.h"
#include "reports/run_file.h"
#include "reports/terminal.h"
#include "tests/readers/inputs.h"
#include "tests/readers/outcomes.h"
#include "tests/reports/samples.h"

#include <gtest/gtest.h>

namespace lockstep::readers {
namespace {

struct Layer {
  int width = 1;
  bool bias = false;
  bool operator==(const Layer&) const = default;
  static constexpr auto fields() {
    return std::tuple{field("width", &Layer::width, between(1, 64)), field("bias", &Layer::bias)};
  }
};

enum class Mode { pad, drop };

// One field of each type.
struct Shape {
  WorldSpec world;
  int steps = 1;
  std::vector<Layer> layers;
  std::vector<int64_t> parts;
  double rate = 1;
  Mode mode = Mode::pad;
  uint64_t seed = 0;
  static constexpr auto fields() {
    return std::tuple{field("world", &Shape::world),
                      field("steps", &Shape::steps, between(1, 100)),
                      field("layers", &Shape::layers, at_most(6, {})),
                      field("parts", &Shape::parts, between(0, 100)),
                      field("rate", &Shape::rate),
                      field("mode", &Shape::mode),
                      field("seed", &Shape::seed, {}, Cost::numbers)};
  }
};

Scenario shapes() {
  return scenario<Shape>({.name = "toys.shapes",
                          .cases = rc::gen::just(Shape{}),
                          .program = [](const Shape&, RankContext&) {},
                          .checks = {}});
}

Case large_case() {
  Shape shape{
      .world = {.injections = {{.kind = InjectionKind::kill, .rank = 2, .at = {1, "look"}}},
                .size = 7,
                .reduction = ReductionShape::ring,
                .schedule = {.choices = {3, 0, 1}, .policy = SchedulePolicy::priority, .seed = 9},
                .timing = {.slow_links = {{1, 2, 8}}, .slow_ranks = {1, 4}}},
      .steps = 30,
      .layers = {{3, true}, {64, false}},
      .parts = {4, 0, 2},
      .rate = 0.25,
      .mode = Mode::drop,
      .seed = ~uint64_t{0}};
  return {"toys.shapes", to_json(shape)};
}

std::vector<std::string> case_files() {
  const auto large = large_case();
  const Case small{"toys.shapes", to_json(Shape{})};
  std::vector<std::string> files{case_file({large}),
                                 case_file({small, Origin{large.value, 41, true}})};
  for (auto& file : given_files("failures")) files.push_back(std::move(file));
  return files;
}

TEST(Readers, AnyCaseFileIsReadOrRefusedByItsPlace) {
  const JsonInputs files(case_files());
  for (const auto& file : files.files())
    EXPECT_EQ(case_file(parse_case_file(file, "case.json")), file);
  Outcomes outcomes("case files", "case.json: ");
  for (uint64_t number = 0; number < inputs(); ++number)
    outcomes.add(number, [&] {
      const auto saved = parse_case_file(files.at(number), "case.json");
      EXPECT_EQ(parse_case_file(case_file(saved), "again"), saved) << number;
    });
  outcomes.report();
}

TEST(Readers, AnyValueOfACaseIsReadOrRefusedByItsPath) {
  const auto scenario = shapes();
  const JsonInputs values({large_case().value.dump(), scenario.smallest().value.dump()});
  Outcomes outcomes("values of cases", "case");
  for (uint64_t number = 0; number < inputs(); ++number)
    outcomes.add(number, [&] {
      const auto c = scenario.parse(parse_json(values.at(number), "case"));
      EXPECT_EQ(scenario.parse(c.value), c) << number;
      EXPECT_EQ(world_of(c).size, world_size(c));
      for (const auto& smaller : scenario.smaller(c)) scenario.parse(smaller.value);
    });
  outcomes.report();
}

std::vector<std::string> run_files() {
  using Kind = Result::Kind;
  std::vector<std::vector<Result>> runs = {
      {samples::passing()}, {samples::shrunk()}, {samples::of_two_signatures()}, {}};
  for (const auto kind : {Kind::pass, Kind::fail, Kind::hang, Kind::leak, Kind::flaky,
                          Kind::inconclusive, Kind::skip})
    runs.back().push_back(samples::of_kind(kind));
  std::vector<std::string> files;
  for (auto& results : runs)
    files.push_back(reports::run_json(samples::run_of(std::move(results))).dump());
  files.push_back(reports::run_json(samples::run_on_one_gpu({samples::failing()})).dump());
  for (auto& file : given_files("run.json")) files.push_back(std::move(file));
  return files;
}

// All that `report` writes of it.
void render(const Run& run) {
  const reports::Style plain;
  const auto columns = reports::columns_for(run);
  auto text = reports::headline(run, plain) + reports::summary(run, plain);
  for (const auto& result : run.results) text += reports::result_text(result, run, columns, plain);
  text += reports::junit(run) + reports::step_summary(run);
  EXPECT_FALSE(text.empty());
}

TEST(Readers, AnyRunFileIsReadAndReportedOrRefusedByItsPath) {
  const JsonInputs files(run_files());
  Outcomes outcomes("run files", "run.json: ");
  for (uint64_t number = 0; number < inputs(); ++number)
    outcomes.add(number, [&] {
      const auto run = reports::parse_run_file(files.at(number), "run.json");
      const auto json = reports::run_json(run);
      EXPECT_EQ(reports::run_json(samples::read(json)), json) << number;
      try {
        const auto whole = merged({{"one", run}});
        samples::read(reports::run_json(whole));
        render(whole);
      } catch (const MergeError& error) {
        EXPECT_FALSE(std::string(error.what()).empty());
      }
    });
  outcomes.report();
}

}  // namespace
}  // namespace lockstep::readers
