#include "tests/reports/samples.h"

#include "harness/base/text.h"
#include "reports/run_file.h"

namespace lockstep::samples {

namespace {

Verdict::Kind verdict_kind(Result::Kind kind) {
  for (const auto verdict : {Verdict::Kind::crash, Verdict::Kind::hang, Verdict::Kind::leak,
                             Verdict::Kind::inconclusive, Verdict::Kind::pass})
    if (name_of(verdict) == name_of(kind)) return verdict;
  return kind == Result::Kind::skip ? Verdict::Kind::refused : Verdict::Kind::fail;
}

Table::Row row(const std::string& name, double reference, double held, int64_t ulps, double ratio,
               Table::Mark mark) {
  const auto cell = [&](const std::string& text, double number) {
    return Table::Cell{text, number, number != reference};
  };
  const auto held_text = Json(held).dump();
  return {.cells = {{name},
                    {Json(reference).dump(), reference},
                    cell(held_text, held),
                    cell(held_text, held),
                    {with_commas(ulps), static_cast<double>(ulps)},
                    {ratio == 1 ? "1.000" : "2.000", ratio},
                    {"yes"}},
          .mark = mark};
}

Finding sum_not_average() {
  using Holds = Table::Holds;
  return {.rule =
              "After backward every rank must hold the gradient of one process on the whole "
              "batch",
          .pattern = "sum_not_average",
          .where = FindingPlace({0, "after_backward"}, "fc.weight", {0}),
          .diagnosis = "fc.weight: the sum of the ranks' gradients, not the average",
          .details = {
              "first divergence: step 0, after_backward, fc.weight[0]",
              Table{.columns = {{"name", Holds::name},
                                {"reference", Holds::reference},
                                {"rank 0", Holds::value, 0},
                                {"rank 1", Holds::value, 1},
                                {"ULP"},
                                {"ratio"},
                                {"ranks agree"}},
                    .rows = {row("fc.bias[0]", -0.5, -0.5, 0, 1, Table::Mark::none),
                             row("fc.weight[0]", 0.125, 0.25, 8'388'608, 2, Table::Mark::first)}},
              "note: all ranks agree with each other; only the reference exposes this"}};
}

Failure some_failure() {
  Failure failure;
  failure.c = {"gradients.match_single_process",
               Json::parse(R"({"world": {"injections": [], "size": 2}, "samples": [1, 2],
                               "options": {"drop": true}, "lr": 0.5})")};
  failure.unlike_default =
      Json::parse(R"({"world": {"size": 2}, "samples": [1, 2], "options": {"drop": true}})");
  failure.number = 37;
  failure.of = 200;
  failure.runs = {Verdict::Kind::fail, Verdict::Kind::fail, Verdict::Kind::fail};
  failure.case_file = ".lockstep/failures/gradients.match_single_process-3f9c1a.json";
  failure.logs = ".lockstep/runs/RUN/logs/gradients.match_single_process-3f9c1a";
  failure.tail_rank = 1;
  failure.tail = "last words";
  failure.tail_file = failure.logs / "rank1.err";
  return failure;
}

}  // namespace

Result passing() {
  Result result;
  result.scenario = "gradients.match_single_process";
  result.claim = "Gradients match those of one process.";
  result.exactness = "bit-equal";
  result.judged = 400;
  result.world_min = 2;
  result.world_max = 4;
  result.labels = {{"world 2", 200}, {"world 4", 200}};
  for (const int world : {2, 4}) {
    result.groups.push_back({.world = world, .labels = {"world " + std::to_string(world)}});
    for (int number = 1; number <= 200; ++number)
      result.groups.back().numbers.add({number + (world == 4 ? 200 : 0)});
  }
  result.took = std::chrono::milliseconds(2940);
  return result;
}

Result failing() {
  Result result = passing();
  result.kind = Result::Kind::fail;
  result.worst = {Verdict::Kind::fail, {sum_not_average()}};
  result.failure = some_failure();
  return result;
}

Result shrunk() {
  Result result = failing();
  Shrunk shrunk;
  shrunk.drawn = Json::parse(R"({"world": {"injections": [], "size": 4}, "samples": [5, 7, 2],
                                 "options": {"drop": true}, "lr": 0.125})");
  shrunk.drawn_unlike_default = Json::parse(
      R"({"world": {"size": 4}, "samples": [5, 7, 2], "options": {"drop": true}, "lr": 0.125})");
  shrunk.steps = 41;
  shrunk.runs = 1212;
  shrunk.tier = "sim";
  shrunk.took = std::chrono::milliseconds(840);
  shrunk.notes = {{"world.size", 2, false, "with 1"},
                  {"samples", Json::parse("[1, 2]"), false, "with [2,2]"},
                  {"options.drop", true, true, ""},
                  {"mode", "pad", false, "with cut"},
                  {"lr", 0.5, true, ""},
                  {"seed", 0, true, ""}};
  result.failure->shrunk = std::move(shrunk);
  return result;
}

Result of_two_signatures() {
  Result result = failing();
  result.others = {{Result::Kind::hang,
                    {Verdict::Kind::hang, {{"Every rank must return", "stuck", "rank 1", "stuck"}}},
                    some_failure()}};
  auto& other = result.others.front();
  other.failure.number = 41;
  other.failure.case_file = ".lockstep/failures/gradients.match_single_process-aaaaaa.json";
  const std::vector<int> fail{37, 38, 39}, hang{41, 43};
  std::vector<int> pass;
  for (int number = 1; number <= 200; ++number)
    if ((number < 37 || number > 39) && number != 41 && number != 43) pass.push_back(number);
  const auto group = [](const Verdict& verdict, const std::vector<int>& numbers) {
    return CaseGroup{.verdict = verdict.kind,
                     .world = 2,
                     .labels = {"world 2"},
                     .signature = verdict.signature(),
                     .numbers = NumberSet(numbers)};
  };
  result.groups = {group({}, pass), group(result.worst, fail), group(other.worst, hang),
                   result.groups.back()};
  result.signatures = {{result.worst.signature(), 3}, {other.worst.signature(), 2}};
  return result;
}

Result of_kind(Result::Kind kind) {
  if (kind == Result::Kind::pass) return passing();
  Result result = failing();
  result.kind = kind;
  result.scenario = "kinds." + std::string(name_of(kind));
  result.worst.kind = verdict_kind(kind);
  result.failure->c.scenario = result.scenario;
  if (kind == Result::Kind::skip) {
    result.failure.reset();
    result.judged = 0;
    result.world_min = result.world_max = 0;
    result.labels.clear();
    result.refused["no GPU"] = 3;
    result.groups = {{.verdict = Verdict::Kind::refused, .reason = "no GPU", .numbers = {1, 2, 3}}};
  }
  return result;
}

lockstep::Run run_of(std::vector<Result> results) {
  lockstep::Run run;
  run.program = "./lockstep";
  run.version = "0.1.0";
  run.libtorch = "2.11.0";
  run.seed = 0x5eed42;
  run.cores = 2;
  run.settings = {Setting()};
  for (const auto& result : results)
    run.jobs.push_back(
        {result.scenario, result.exactness, result.setting, 400, "0123456789abcdef"});
  run.results = std::move(results);
  run.took = std::chrono::milliseconds(8600);
  run.folder = ".lockstep/runs/20251120-211300-1a2b";
  return run;
}

lockstep::Run read(const Json& json) {
  return reports::parse_run_file(reports::file_text(json), "run.json");
}

lockstep::Run run_on_one_gpu(std::vector<Result> results) {
  for (auto& result : results) result.setting.backend = "nccl";
  auto run = run_of(std::move(results));
  run.settings = {{.backend = "nccl"}};
  run.shared_devices = {{.backend = "nccl",
                         .kind = "GPU (NVIDIA H100 80GB HBM3)",
                         .count = 1,
                         .world_least = 2,
                         .world_most = 4}};
  return run;
}

}  // namespace lockstep::samples
