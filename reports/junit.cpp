#include "reports/junit.h"

#include "harness/base/characters.h"
#include "harness/base/text.h"
#include "reports/case_text.h"
#include "reports/coverage.h"
#include "reports/devices.h"
#include "reports/run_text.h"
#include "reports/story.h"
#include "reports/style.h"

#include <pugixml.hpp>

#include <cmath>
#include <cstdio>
#include <sstream>

namespace lockstep::reports {

namespace {

void set(pugi::xml_node node, const char* name, const std::string& value) {
  node.append_attribute(name).set_value(legible(value).c_str());
}

// A result covers cases of several world sizes, so the name has no world. It always has subject,
// tier and backend, so a run that adds a second one renames nothing.
std::string test_name(const std::string& scenario, const Setting& setting) {
  const auto dot = scenario.find('.');
  return (dot == std::string::npos ? scenario : scenario.substr(dot + 1)) + "@" + setting.subject +
         "-" + setting.tier + "-" + setting.backend;
}

// With a decimal point in any locale, and no exponent.
std::string seconds_text(std::chrono::milliseconds time) {
  char text[32];
  std::snprintf(text, sizeof(text), "%lld.%03lld", static_cast<long long>(time.count() / 1000),
                static_cast<long long>(time.count() % 1000));
  return text;
}

// One suite per family, in order of first occurrence.
pugi::xml_node suite(pugi::xml_node root, const std::string& family) {
  const auto name = legible(family);
  if (auto found = root.find_child_by_attribute("testsuite", "name", name.c_str())) return found;
  auto made = root.append_child("testsuite");
  set(made, "name", name);
  for (const char* count : {"tests", "failures", "errors", "skipped"})
    made.append_attribute(count).set_value(0);
  set(made, "time", seconds_text({}));
  return made;
}

void count(pugi::xml_node suite, const char* what) {
  for (auto node : {suite, suite.parent()})
    if (auto attribute = node.attribute(what)) attribute.set_value(attribute.as_int() + 1);
}

void add_time(pugi::xml_node node, std::chrono::milliseconds took) {
  auto attribute = node.attribute("time");
  const std::chrono::milliseconds before(std::llround(attribute.as_double() * 1000));
  attribute.set_value(seconds_text(before + took).c_str());
}

pugi::xml_node test_case(pugi::xml_node suite, const std::string& family, const std::string& name,
                         std::chrono::milliseconds took) {
  count(suite, "tests");
  auto test = suite.append_child("testcase");
  set(test, "classname", "lockstep." + family);
  set(test, "name", name);
  set(test, "time", seconds_text(took));
  add_time(suite, took);
  add_time(suite.parent(), took);
  return test;
}

void outcome(pugi::xml_node test, const char* element, const char* counter, const std::string& type,
             const std::string& message, const std::string& text) {
  count(test.parent(), counter);
  auto node = test.append_child(element);
  if (!type.empty()) set(node, "type", type);
  set(node, "message", message);
  if (!text.empty()) node.append_child(pugi::node_pcdata).set_value(legible(text).c_str());
}

void property(pugi::xml_node properties, const std::string& name, const std::string& value) {
  auto node = properties.append_child("property");
  set(node, "name", name);
  set(node, "value", value);
}

// The world size of the failing case, or of all cases: "3", "2-4".
std::string world_text(const Result& result) {
  if (result.failure) return std::to_string(world_size(result.failure->c));
  if (result.world_max == 0) return "";
  const auto least = std::to_string(result.world_min);
  return result.world_min == result.world_max ? least
                                              : least + "-" + std::to_string(result.world_max);
}

int64_t refused_count(const Result& result) {
  int64_t count = 0;
  for (const auto& [reason, cases] : result.refused) count += cases;
  return count;
}

void add_properties(pugi::xml_node test, const Result& result, const Run& run) {
  auto properties = test.append_child("properties");
  if (run.seed) property(properties, "seed", seed_text(*run.seed));
  property(properties, "cases", std::to_string(result.judged));
  if (const auto refused = refused_count(result); refused > 0)
    property(properties, "refused", std::to_string(refused));
  for (const auto& [signature, cases] : result.signatures)
    property(properties, "signature", std::to_string(cases) + " x " + signature);
  if (const auto world = world_text(result); !world.empty()) property(properties, "world", world);
  if (result.failure && result.failure->shrunk)
    property(properties, "shrunk", shrunk_text(*result.failure->shrunk));
  property(properties, "subject", result.setting.subject);
  property(properties, "tier", result.setting.tier);
  property(properties, "backend", result.setting.backend);
  if (const auto* shared = shared_by(result, run))
    property(properties, "devices", shared_text(*shared) + ": no timing");
  if (const auto command = replay_command(result, run.program); !command.empty())
    property(properties, "replay", command);
}

std::string type_of(const Result& result) {
  const auto& findings = result.worst.findings;
  if (result.kind != Result::Kind::fail || findings.empty() || findings.front().pattern.empty())
    return std::string(name_of(result.kind));
  return family_of(result.scenario) + "." + findings.front().pattern;
}

void add_outcome(pugi::xml_node test, const Result& result, const Run& run) {
  const std::string message = rule_of(result) + ": " + diagnosis_of(result);
  const std::string text = "\n" + joined(story(result, run.program), "\n") + "\n";
  switch (result.kind) {
    case Result::Kind::pass:
      return;
    case Result::Kind::skip:
      return outcome(test, "skipped", "skipped", "", weightiest_reason(result), "");
    case Result::Kind::fail:
    case Result::Kind::flaky:
      return outcome(test, "failure", "failures", type_of(result), message, text);
    default:
      return outcome(test, "error", "errors", type_of(result), message, text);
  }
}

void add_output(pugi::xml_node test, const Result& result) {
  if (!result.failure) return;
  const Failure& failure = *result.failure;
  std::string text = failure.stack;
  if (!text.empty() && !failure.tail.empty()) text += "\n\n";
  text += failure.tail;
  if (text.empty()) return;
  // The file on its own line, by an absolute path, as Jenkins and GitLab require of an attachment.
  for (const auto& file : {failure.stack_file, failure.tail_file})
    if (!file.empty())
      text += "\n[[ATTACHMENT|" + std::filesystem::absolute(file).string() + "]]\n";
  test.append_child("system-out").append_child(pugi::node_pcdata).set_value(legible(text).c_str());
}

void add_canary(pugi::xml_node root, const Run& run) {
  if (run.canary == Run::Canary::not_run) return;
  auto test = test_case(suite(root, "canary"), "canary", "a_scenario_that_must_fail_does", {});
  if (run.canary == Run::Canary::passed)
    outcome(test, "failure", "failures", "canary", blind_text(run), "");
  if (run.canary == Run::Canary::inconclusive)
    outcome(test, "error", "errors", "inconclusive", "A scenario that must fail was not judged",
            "");
}

}  // namespace

std::string junit(const Run& run) {
  pugi::xml_document document;
  auto declaration = document.append_child(pugi::node_declaration);
  set(declaration, "version", "1.0");
  set(declaration, "encoding", "UTF-8");
  auto root = document.append_child("testsuites");
  set(root, "name", "lockstep");
  for (const char* count : {"tests", "failures", "errors"})
    root.append_attribute(count).set_value(0);
  set(root, "time", seconds_text({}));
  for (const auto& result : run.results) {
    const std::string family = family_of(result.scenario);
    auto test = test_case(suite(root, family), family, test_name(result.scenario, result.setting),
                          result.took);
    add_properties(test, result, run);
    add_outcome(test, result, run);
    add_output(test, result);
  }
  for (const auto& skip : run.not_finished) {
    const std::string family = family_of(skip.scenario);
    auto test = test_case(suite(root, family), family, test_name(skip.scenario, skip.setting), {});
    outcome(test, "error", "errors", "not_finished", skip.reason, "");
  }
  add_canary(root, run);
  std::ostringstream out;
  document.save(out, "  ", pugi::format_default, pugi::encoding_utf8);
  return out.str();
}

}  // namespace lockstep::reports
