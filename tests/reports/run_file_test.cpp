#include "reports/run_file.h"

#include "reports/json.h"
#include "tests/reports/samples.h"

#include <gtest/gtest.h>

namespace lockstep::reports {
namespace {

using Kind = Result::Kind;
using Run = lockstep::Run;

Run run_of_every_kind() {
  std::vector<Result> results;
  for (const auto kind : {Kind::pass, Kind::fail, Kind::hang, Kind::crash, Kind::leak, Kind::flaky,
                          Kind::inconclusive, Kind::skip})
    results.push_back(samples::of_kind(kind));
  auto run = samples::run_of(std::move(results));
  run.not_finished.push_back({"kinds.fail", {}, "the run was interrupted"});
  return run;
}

std::string refusal(const Json& json) {
  try {
    run_of(json, "run.json");
  } catch (const FieldError& error) {
    return error.what();
  }
  return "none";
}

TEST(RunFile, WhatIsReadIsWhatWasWritten) {
  auto run = run_of_every_kind();
  EXPECT_EQ(run_json(run_of(run_json(run), "run.json")), run_json(run));
  run.seed.reset();
  run.interrupted = true;
  run.canary = Run::Canary::passed;
  run.blind = {"values", "tap"};
  run.missing_shards = {2, 5};
  run.results.erase(run.results.begin() + 1, run.results.end());
  run.exit_code = 130;
  EXPECT_EQ(run_json(run_of(run_json(run), "run.json")), run_json(run));
  EXPECT_EQ(run_json(parse_run_file(file_text(run_json(run)), "run.json")), run_json(run));
}

TEST(RunFile, OfACrashTheStackIsRead) {
  auto run = run_of_every_kind();
  auto& failure = *run.results.at(3).failure;
  failure.stack = "lockstep::act at toys.cpp:80";
  failure.stack_file = failure.logs / "rank1.stacks";
  const auto json = run_json(run);
  EXPECT_EQ(run_of(json, "run.json").results.at(3).failure->stack, failure.stack);
  EXPECT_EQ(run_of(json, "run.json").results.at(3).failure->stack_file, failure.stack_file);
}

TEST(RunFile, HowACaseWasShrunkIsRead) {
  const auto json = run_json(samples::run_of({samples::shrunk()}));
  const auto& shrunk = json["results"][0]["failure"]["shrunk"];
  EXPECT_EQ(shrunk["steps"], 41);
  EXPECT_EQ(shrunk["notes"][1]["value"], Json::parse("[1, 2]"));
  EXPECT_EQ(run_json(run_of(json, "run.json")), json);
  const auto refused = [&](auto change) {
    auto changed = json;
    change(changed["results"][0]["failure"]["shrunk"]);
    return refusal(changed);
  };
  for (const auto& item : shrunk.items()) {
    const auto& name = item.key();
    const auto* at = "results[0].failure.shrunk";
    EXPECT_NE(refused([&](Json& changed) { changed.erase(name); }).find(at), std::string::npos);
    EXPECT_NE(refused([&](Json& changed) { changed[name] = Json(); }).find(at), std::string::npos)
        << name;
  }
  EXPECT_NE(refused([](Json& changed) { changed["failed"] = 3; }).find("more than 'smallest_runs'"),
            std::string::npos);
  EXPECT_NE(refused([](Json& changed) { changed["end"] = "soon"; }).find("one of smallest, time"),
            std::string::npos);
  EXPECT_NE(refused([](Json& changed) { changed["notes"][0]["path"] = "a\nb"; }).find("notes[0]"),
            std::string::npos);
}

TEST(RunFile, DevicesThatWereSharedAreReadAndHaveToAgreeWithTheResults) {
  const auto run = samples::run_on_one_gpu({samples::passing(), samples::of_kind(Kind::skip)});
  auto json = run_json(run);
  EXPECT_EQ(run_of(json, "run.json").shared_devices, run.shared_devices);
  EXPECT_EQ(run_json(run_of(json, "run.json")), json);
  json["shared_devices"][0]["world_least"] = 5;
  EXPECT_NE(refusal(json).find("'shares_devices' is not what"), std::string::npos);
  json["shared_devices"] = Json();
  EXPECT_NE(refusal(json).find("shared_devices"), std::string::npos);
}

TEST(RunFile, SignaturesAreReadAndHaveToAddUp) {
  auto run = samples::run_of({samples::of_two_signatures()});
  run.kept_going = true;
  run.results[0].failure->archived = true;
  const auto json = run_json(run);
  EXPECT_EQ(json["results"][0]["signatures"].size(), 2u);
  EXPECT_EQ(run_json(run_of(json, "run.json")), json);
  const auto refused = [&](auto change) {
    auto changed = json;
    change(changed["results"][0]);
    return refusal(changed);
  };
  EXPECT_NE(refused([](Json& result) { result.erase("others"); }).find("'others'"),
            std::string::npos);
  EXPECT_NE(refused([](Json& result) {
              result["others"].push_back(result["others"][0]);
            }).find("'others'"),
            std::string::npos);
  EXPECT_NE(refused([](Json& result) {
              result["signatures"].begin().value() = 4;
            }).find("groups: do not add up"),
            std::string::npos);
  EXPECT_NE(refused([](Json& result) { result.erase("signatures"); }).find("signatures"),
            std::string::npos);
}

TEST(RunFile, TheProgramOfACaseIsKeptInWords) {
  auto run = samples::run_of({samples::failing()});
  run.results.front().failure->program = "wraps a network";
  EXPECT_EQ(run_of(run_json(run), "run.json").results.front().failure->program, "wraps a network");
}

TEST(RunFile, AShardIsReadAsOne) {
  auto run = samples::run_of({});
  run.shard = RunShard{2, 5};
  EXPECT_EQ(run_json(run)["shard"], "2/5");
  EXPECT_EQ(run_of(run_json(run), "run.json").shard, run.shard);
}

TEST(RunFile, SettingsAreThoseOfThePlan) {
  auto run = run_of_every_kind();
  EXPECT_EQ(run_of(run_json(run), "run.json").settings, run.settings);
}

TEST(RunFile, WhatThisProgramDoesNotKnowIsLeftAlone) {
  const auto known = run_json(run_of_every_kind());
  auto json = known;
  json["news"] = 1;
  json["results"][0]["news"] = Json::array({1, 2});
  EXPECT_EQ(run_json(run_of(json, "run.json")), known);
}

// Calls `try_it` with every version of `root` in which one field is gone or of another type. The
// content of a case is its scenario's: the hash speaks for it.
void spoil(Json& root, Json& at, const std::string& path,
           const std::function<void(const std::string&)>& try_it) {
  if (at.is_array())
    for (size_t i = 0; i < at.size(); ++i)
      spoil(root, at[i], path + "[" + std::to_string(i) + "]", try_it);
  if (!at.is_object()) return;
  std::vector<std::string> names;
  for (const auto& [name, value] : at.items()) names.push_back(name);
  for (const auto& name : names) {
    const Json before = at;
    const auto here = path + "." + name;
    at.erase(name);
    try_it(here + " missing");
    at = before;
    for (const auto& other :
         {Json(), Json(true), Json(-7), Json(0.5), Json("?"), Json::array({1}), Json{{"?", "?"}}}) {
      const bool may_be_null = name == "seed" || name == "shard" || name == "place";
      if (other.type() == before[name].type() && !other.is_string()) continue;
      if ((other.is_null() && may_be_null) || (other.is_number() && before[name].is_number_float()))
        continue;
      if (other.is_string() && before[name].is_string()) continue;
      at[name] = other;
      try_it(here + " = " + other.dump());
    }
    at = before;
    if (name != "case" && name != "unlike_default") spoil(root, at[name], here, try_it);
  }
}

TEST(RunFile, AnyFieldThatIsMissingOrOfAnotherTypeIsRefusedByName) {
  auto json = run_json(run_of_every_kind());
  int tried = 0;
  spoil(json, json, "", [&](const std::string& what) {
    const auto sentence = refusal(json);
    EXPECT_TRUE(sentence.starts_with("run.json: ")) << what << ": " << sentence;
    ++tried;
  });
  EXPECT_GT(tried, 1000);
}

TEST(RunFile, AFileThatWasCutIsRefused) {
  const auto text = file_text(run_json(run_of_every_kind()));
  for (size_t size = 0; size + 2 < text.size(); size += 7)
    EXPECT_THROW(parse_run_file(text.substr(0, size), "run.json"), FieldError) << size;
}

TEST(RunFile, WhatDoesNotAgreeWithItselfIsRefused) {
  const auto good = run_json(run_of_every_kind());
  const auto with = [&](const std::string& pointer, const Json& value) {
    auto json = good;
    json[Json::json_pointer(pointer)] = value;
    return refusal(json);
  };
  EXPECT_EQ(with("/lockstep_run", 2),
            "run.json: lockstep_run: version 2; this program reads version 1");
  EXPECT_EQ(with("/shard", "6/5"),
            "run.json: shard: expected a shard such as \"2/5\", or null, found \"6/5\"");
  EXPECT_EQ(with("/seed", "0xg"),
            "run.json: seed: expected a seed in hexadecimal, or null, found \"0xg\"");
  EXPECT_EQ(with("/results/0/judged", 399),
            "run.json: results[0].groups: do not add up to what the result counts");
  EXPECT_EQ(
      with("/results/0/groups/0/cases", "1-401"),
      "run.json: results[0].groups[0].cases: expected numbers of cases up to 400, found \"1-401\"");
  EXPECT_EQ(with("/results/0/result", "great"),
            "run.json: results[0].result: expected one of pass, fail, hang, crash, leak, flaky, "
            "inconclusive, "
            "skip, found \"great\"");
  EXPECT_EQ(with("/results/0/result", "fail"),
            "run.json: results[0].verdict: is not one of a result that is 'fail'");
  EXPECT_EQ(with("/results/1/failure/case/lr", 0.25),
            "run.json: results[1].failure.hash: is not that of the case");
  EXPECT_EQ(
      with("/results/1/failure/number", 201),
      "run.json: results[1].failure.number: expected a whole number from 1 to 200, found 201");
  EXPECT_EQ(with("/results/1/findings/0/rule", "Another"),
            "run.json: results[1].signature: is not that of the verdict and its first finding");
  EXPECT_EQ(with("/results/1/findings/0/details/1/rows/0/wrong", Json::array({7})),
            "run.json: results[1].findings[0].details[1].rows[0].wrong[0]: expected a whole number "
            "from 0 to 6, found 7");
  EXPECT_EQ(with("/results/1/findings/0/details/1/rows/0/cells", Json::array()),
            "run.json: results[1].findings[0].details[1].rows[0]: has not as many cells and "
            "numbers as there are columns");
  EXPECT_EQ(with("/jobs/0/scenario", "toys.other"), "run.json: results[0]: is not among the jobs");
  EXPECT_EQ(with("/shard", "2/5"),
            "run.json: results[0].groups[0].cases: holds cases of another shard");
}

TEST(RunFile, WhatHasLineBreaksIsWrittenAsOneLineAndReadBack) {
  auto run = run_of_every_kind();
  for (auto& result : run.results) {
    result.claim = "a\nclaim";
    for (auto& finding : result.worst.findings) finding.rule = "a\rrule", finding.where = "\x1b[0m";
  }
  run.not_finished.at(0).reason = "lost\n::error::planted";
  const auto json = run_json(run);
  EXPECT_EQ(json["not_finished"][0]["reason"], "lost\\x0a::error::planted");
  EXPECT_EQ(run_json(run_of(json, "run.json")), json);
}

TEST(RunFile, AnyLineWithABreakIsRefused) {
  const auto good = run_json(run_of_every_kind());
  for (const char* pointer : {"/version",
                              "/libtorch",
                              "/jobs/0/scenario",
                              "/jobs/0/exactness",
                              "/jobs/0/subject",
                              "/jobs/0/tier",
                              "/jobs/0/backend",
                              "/jobs/0/hash",
                              "/results/0/claim",
                              "/results/0/exactness",
                              "/results/0/groups/0/reason",
                              "/results/0/groups/0/labels/0",
                              "/results/1/findings/0/rule",
                              "/results/1/findings/0/pattern",
                              "/results/1/findings/0/where",
                              "/results/1/findings/0/place/record",
                              "/results/1/findings/0/details/1/columns/0/heading",
                              "/results/1/findings/0/details/1/rows/0/cells/0",
                              "/results/1/findings/0/details/1/rows/0/remark",
                              "/results/1/failure/call_sites/0",
                              "/not_finished/0/reason"}) {
    auto json = good;
    auto& value = json[Json::json_pointer(pointer)];
    value = (value.is_string() ? value.get<std::string>() : "") + "\n::error::planted";
    const auto sentence = refusal(json);
    EXPECT_NE(sentence.find("expected a string of one line, found"), std::string::npos)
        << pointer << ": " << sentence;
    EXPECT_EQ(sentence.find('\n'), std::string::npos) << pointer;
  }
  auto json = good;
  json["results"][0]["refused"] = Json{{"a\n::error::planted", 0}};
  EXPECT_NE(refusal(json).find("is not one line"), std::string::npos);
}

TEST(RunFile, MoreResultsThanThePlanHasAreRefused) {
  auto json = run_json(run_of_every_kind());
  json["results"].push_back(json["results"][0]);
  EXPECT_EQ(refusal(json), "run.json: results: a list of 9 is too long; the longest has 8");
}

TEST(RunFile, WhatIsNoRunSaysSo) {
  EXPECT_EQ(refusal(Json::array()),
            "run.json: no run of Lockstep; expected an object with \"lockstep_run\"");
  EXPECT_THROW(parse_run_file("{\"lockstep_run\": 1e999}", "run.json"), FieldError);
  EXPECT_THROW(read_run_file("no/such/run.json"), FieldError);
}

}  // namespace
}  // namespace lockstep::reports
