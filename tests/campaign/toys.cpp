#include "tests/campaign/toys.h"

#include "harness/cases/generators.h"

#include <fstream>
#include <stdlib.h>

namespace lockstep::toys {

namespace {

Findings nobody_saw_one(const Number&, const History& history) {
  for (const auto& row : history.rows("look"))
    for (const auto& value : row.by_rank)
      if (as_integers(value) == std::vector<int64_t>{1})
        return {{"No rank may see a one", "one", "step 0", "a rank saw a one\nrank 0  1"}};
  return {};
}

rc::Gen<Number> numbers() {
  return gen::map(rc::gen::inRange<int64_t>(0, 1001), [](int64_t value) {
    return Number{.world = {.size = 2 + static_cast<int>(value % 3)}, .value = value};
  });
}

}  // namespace

Scenario holds_unless_one(std::string name) {
  return scenario<Number>({.name = std::move(name),
                           .claim = "No rank sees a one.",
                           .exactness = "bit-equal",
                           .tags = {"toy"},
                           .draws = 20,
                           .cases = numbers(),
                           .program = [](const Number&, RankContext&) {},
                           .checks = {nobody_saw_one}});
}

std::vector<Case> cases_of(const Scenario& scenario, const std::vector<int64_t>& values) {
  std::vector<Case> cases;
  for (const int64_t value : values) {
    Number number;
    number.value = value;
    cases.push_back({scenario.name, to_json(number)});
  }
  return cases;
}

Job job_of(const Scenario& scenario, const std::vector<int64_t>& values) {
  return {scenario, {}, cases_of(scenario, values)};
}

std::vector<Case> all_of(const CaseList& cases) {
  std::vector<Case> all;
  for (size_t index = 0; index < cases.size(); ++index) all.push_back(cases[index]);
  return all;
}

History recorded(const Case& c, int64_t seen) {
  RankHistory rank;
  rank.events.push_back({{0, "look"}, Observation{"number", int64_values({seen})}});
  rank.last = {0, "look"};
  return History(std::vector<RankHistory>(static_cast<size_t>(world_size(c)), rank));
}

History ended(const Case& c, Ending ending) {
  auto ranks = recorded(c, 0).ranks();
  ranks.back().ending = std::move(ending);
  return History(std::move(ranks));
}

int64_t value_of(const Case& c) {
  return c.value["value"].get<int64_t>();
}

History FakeTier::run(const Scenario&, const Case& c, const Setting&, const CaseRunOptions&) {
  return run_ ? run_(c, *this) : recorded(c, 0);
}

CaseStacks FakeTier::keep_output(const std::filesystem::path& folder, const History&) {
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "rank0.err") << "first line\nlast words\n";
  return {};
}

void FakeTier::stop() {
  stopped_ = true;
  stopped_.notify_all();
}

void FakeTier::block() {
  stopped_.wait(false);
  throw Interrupted();
}

std::vector<std::unique_ptr<Tier>> lanes(int count, const FakeTier::HistoryOf& run) {
  std::vector<std::unique_ptr<Tier>> out;
  for (int lane = 0; lane < count; ++lane) out.push_back(std::make_unique<FakeTier>(run));
  return out;
}

Folder::Folder() {
  std::string path = (std::filesystem::temp_directory_path() / "lockstep-test-XXXXXX").string();
  if (!::mkdtemp(path.data())) throw std::runtime_error("no temporary folder");
  path_ = path;
}

Folder::~Folder() {
  std::error_code none;
  std::filesystem::remove_all(path_, none);
}

std::vector<Json> events_of(const std::filesystem::path& run_folder) {
  std::vector<Json> events;
  std::ifstream in(run_folder / "events.jsonl");
  for (std::string line; std::getline(in, line);) events.push_back(Json::parse(line));
  return events;
}

}  // namespace lockstep::toys
