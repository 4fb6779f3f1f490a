#include "reports/run_file.h"

#include "tests/reports/samples.h"

#include <gtest/gtest.h>

#include <regex>

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
    samples::read(json);
  } catch (const FieldError& error) {
    return error.what();
  }
  return "none";
}

TEST(RunFile, WhatIsReadIsWhatWasWritten) {
  auto run = run_of_every_kind();
  EXPECT_EQ(run_json(samples::read(run_json(run))), run_json(run));
  auto& crash = *run.results.at(3).failure;
  crash.program = "wraps a network";
  crash.stack = "lockstep::act at toys.cpp:80";
  crash.stack_file = crash.logs / "rank1.stacks";
  EXPECT_EQ(samples::read(run_json(run)).results.at(3).failure->program, crash.program);
  EXPECT_EQ(samples::read(run_json(run)).results.at(3).failure->stack, crash.stack);
  run.seed.reset();
  run.interrupted = true;
  run.canary = Run::Canary::passed;
  run.blind = {"values", "tap"};
  run.missing_shards = {2, 5};
  run.results.erase(run.results.begin() + 1, run.results.end());
  run.exit_code = 130;
  EXPECT_EQ(run_json(samples::read(run_json(run))), run_json(run));
}

TEST(RunFile, HowACaseWasShrunkIsRead) {
  const auto json = run_json(samples::run_of({samples::shrunk()}));
  const auto& shrunk = json["results"][0]["failure"]["shrunk"];
  EXPECT_EQ(shrunk["steps"], 41);
  EXPECT_EQ(shrunk["notes"][1]["value"], Json::parse("[1, 2]"));
  EXPECT_EQ(run_json(samples::read(json)), json);
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
  EXPECT_NE(refused([](Json& changed) { changed["end"] = "soon"; }).find("known: smallest, time"),
            std::string::npos);
  EXPECT_NE(refused([](Json& changed) { changed["notes"][0]["path"] = "a\nb"; }).find("notes[0]"),
            std::string::npos);
}

TEST(RunFile, DevicesThatWereSharedAreRead) {
  const auto run = samples::run_on_one_gpu({samples::passing(), samples::of_kind(Kind::skip)});
  auto json = run_json(run);
  EXPECT_EQ(json["results"][0]["shares_devices"],
            "worlds of 2-4 share 1 GPU (NVIDIA H100 80GB HBM3)");
  EXPECT_FALSE(json["results"][1].contains("shares_devices")) << "it has no worlds";
  EXPECT_EQ(samples::read(json).shared_devices, run.shared_devices);
  EXPECT_EQ(run_json(samples::read(json)), json);
  json["shared_devices"] = Json();
  EXPECT_NE(refusal(json).find("shared_devices"), std::string::npos);
}

TEST(RunFile, SignaturesAreReadAndHaveToBeThoseOfTheGroups) {
  auto run = samples::run_of({samples::of_two_signatures()});
  run.kept_going = true;
  run.results[0].failure->archived = true;
  const auto json = run_json(run);
  EXPECT_EQ(json["results"][0]["signatures"].size(), 2u);
  EXPECT_EQ(run_json(samples::read(json)), json);
  const auto refused = [&](auto change) {
    auto changed = json;
    change(changed["results"][0]);
    return refusal(changed).find("are not those of the result and its 'others'") !=
           std::string::npos;
  };
  EXPECT_TRUE(refused([](Json& result) { result.erase("others"); }));
  EXPECT_TRUE(refused([](Json& result) { result["others"].push_back(result["others"][0]); }));
  EXPECT_TRUE(refused([](Json& result) { result["groups"][1].erase("signature"); }));
  EXPECT_TRUE(refused([](Json& result) { result["others"][0]["findings"][0]["rule"] = "?"; }));
}

TEST(RunFile, AShardIsReadAsOne) {
  auto run = samples::run_of({});
  run.shard = RunShard{2, 5};
  EXPECT_EQ(run_json(run)["shard"], "2/5");
  EXPECT_EQ(samples::read(run_json(run)).shard, run.shard);
}

TEST(RunFile, SettingsAreThoseOfThePlan) {
  auto run = run_of_every_kind();
  EXPECT_EQ(samples::read(run_json(run)).settings, run.settings);
}

TEST(RunFile, WhatThisProgramDoesNotKnowIsLeftAlone) {
  const auto known = run_json(run_of_every_kind());
  auto json = known;
  json["news"] = 1;
  json["results"][0]["news"] = Json::array({1, 2});
  EXPECT_EQ(run_json(samples::read(json)), known);
}

// Calls `try_it` with every version of `root` in which one field is gone or of another type. The
// content of a case is its scenario's.
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
  const auto good = run_json(run_of_every_kind());
  const std::regex derived(
      R"(\.results\[\d+\]\.(judged|refused|labels|world_m..|signature|failure\.hash|)"
      R"(findings\[\d+\]\.text)[ .].*)");
  auto json = good;
  int tried = 0, computed = 0;
  spoil(json, json, "", [&](const std::string& what) {
    if (std::regex_match(what, derived)) {
      EXPECT_EQ(run_json(samples::read(json)), good) << what;
      ++computed;
    } else {
      const auto sentence = refusal(json);
      EXPECT_TRUE(sentence.starts_with("run.json: ")) << what << ": " << sentence;
      ++tried;
    }
  });
  EXPECT_GT(tried, 1000);
  EXPECT_GT(computed, 300);
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
            "run.json: run.shard: expected a shard such as \"2/5\", or null, found \"6/5\"");
  EXPECT_EQ(with("/seed", "0xg"),
            "run.json: run.seed: expected a seed in hexadecimal, or null, found \"0xg\"");
  EXPECT_EQ(with("/canary", "not_run"),
            "run.json: run.canary: expected one of not run, failed, passed, inconclusive, found "
            "\"not_run\"");
  EXPECT_EQ(with("/shards_missing", {5, 2}),
            "run.json: run.shards_missing: expected ascending numbers");
  EXPECT_EQ(with("/results/0/groups/0/cases", "1-401"),
            "run.json: run.results[0].groups[0].cases: expected numbers of cases up to 400, found "
            "401");
  EXPECT_EQ(with("/results/0/groups/1/cases", "200-400"),
            "run.json: run.results[0].groups: a case is in two groups");
  EXPECT_EQ(with("/results/0/result", "great"),
            "run.json: run.results[0].result: unknown value 'great'; known: pass, fail, hang, "
            "crash, leak, flaky, inconclusive, skip");
  EXPECT_EQ(with("/results/0/result", "fail"),
            "run.json: run.results[0].verdict: is not one of a result that is 'fail'");
  EXPECT_EQ(with("/results/0/failure", good["results"][1]["failure"]),
            "run.json: run.results[0].failure: a result that holds has none");
  EXPECT_EQ(with("/results/1/failure/case/world/size", 0).substr(0, 99),
            "run.json: run.results[1].failure.case: expected a case whose world has a size from 1 "
            "to 1024, found");
  EXPECT_EQ(with("/results/1/failure/number", 201),
            "run.json: run.results[1].failure: 'number' is more than 'of'");
  const std::string finding = "run.json: run.results[1].findings[0]";
  EXPECT_EQ(with("/results/1/findings/0/details/1/rows/0/wrong", Json::array({7})),
            finding + ".details[1].rows[0].wrong: expected columns below 7, found [7]");
  EXPECT_EQ(with("/results/1/findings/0/details/1/rows/0/numbers", Json::array()),
            finding + ".details[1].rows[0].numbers: expected as many numbers as 'cells', found []");
  EXPECT_EQ(with("/results/1/findings/0/details/1/columns", Json::array()),
            finding +
                ".details[1]: expected a cell for each of the 'columns' in each of the "
                "'rows'");
  EXPECT_EQ(with("/jobs/0/scenario", "toys.other"),
            "run.json: run.results[0]: is not among the jobs");
  EXPECT_EQ(with("/shard", "2/5"),
            "run.json: run.results[0].groups[0].cases: holds cases of another shard");
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
  EXPECT_EQ(run_json(samples::read(json)), json);
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
    EXPECT_NE(sentence.find("expected one line without control characters, found"),
              std::string::npos)
        << pointer << ": " << sentence;
    EXPECT_EQ(sentence.find('\n'), std::string::npos) << pointer;
  }
}

TEST(RunFile, MoreResultsThanThePlanHasAreRefused) {
  auto json = run_json(run_of_every_kind());
  json["results"].push_back(json["results"][0]);
  EXPECT_EQ(refusal(json), "run.json: run.results: a list of 9 is too long; the longest has 8");
}

TEST(RunFile, WhatIsNoRunSaysSo) {
  EXPECT_EQ(refusal(Json::array()),
            "run.json: no run of Lockstep; expected an object with \"lockstep_run\"");
  EXPECT_THROW(parse_run_file("{\"lockstep_run\": 1e999}", "run.json"), FieldError);
  EXPECT_THROW(read_run_file("no/such/run.json"), FieldError);
}

}  // namespace
}  // namespace lockstep::reports
