#include "reports/junit.h"

#include "harness/core/text.h"
#include "reports/story.h"
#include "reports/style.h"

#include <pugixml.hpp>

#include <cstdio>
#include <sstream>

namespace lockstep::reports {

namespace {

// How many bytes the UTF-8 character at the front of `text` has; 0 if there is none that XML 1.0
// may hold.
size_t character_size(std::string_view text) {
  const auto byte = [&](size_t at) { return static_cast<unsigned char>(text[at]); };
  if (byte(0) < 0x80) return byte(0) >= 0x20 || byte(0) == '\n' || byte(0) == '\t' ? 1 : 0;
  const size_t size = byte(0) >= 0xf0 ? 4 : byte(0) >= 0xe0 ? 3 : 2;
  if (byte(0) < 0xc2 || byte(0) > 0xf4 || size > text.size()) return 0;
  uint32_t code = byte(0) & (0xffu >> (size + 1));
  for (size_t at = 1; at < size; ++at) {
    if ((byte(at) & 0xc0) != 0x80) return 0;
    code = code << 6 | (byte(at) & 0x3f);
  }
  const uint32_t least = size == 2 ? 0x80 : size == 3 ? 0x800 : 0x10000;
  const bool surrogate = code >= 0xd800 && code < 0xe000;
  return code < least || code > 0x10ffff || surrogate || code == 0xfffe || code == 0xffff ? 0
                                                                                          : size;
}

std::string carried(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t size = character_size(text);
    if (size > 0) {
      out += text.substr(0, size);
    } else {
      char spelled[8];
      std::snprintf(spelled, sizeof(spelled), "\\x%02x", static_cast<unsigned char>(text[0]));
      out += spelled;
    }
    text.remove_prefix(std::max<size_t>(size, 1));
  }
  return out;
}

void set(pugi::xml_node node, const char* name, const std::string& value) {
  node.append_attribute(name).set_value(carried(value).c_str());
}

std::string family_of(const std::string& scenario) {
  return scenario.substr(0, scenario.find('.'));
}

std::string test_name(const std::string& scenario, const Setting& setting) {
  const auto dot = scenario.find('.');
  return (dot == std::string::npos ? scenario : scenario.substr(dot + 1)) + "@" + setting.subject +
         "-" + setting.tier + "-" + setting.backend;
}

// One suite a family, in the order in which families first come.
pugi::xml_node suite(pugi::xml_node root, const std::string& family) {
  if (auto found = root.find_child_by_attribute("testsuite", "name", family.c_str())) return found;
  auto made = root.append_child("testsuite");
  set(made, "name", family);
  for (const char* count : {"tests", "failures", "errors", "skipped"})
    made.append_attribute(count).set_value(0);
  return made;
}

void count(pugi::xml_node suite, const char* what) {
  auto attribute = suite.attribute(what);
  attribute.set_value(attribute.as_int() + 1);
}

pugi::xml_node test_case(pugi::xml_node suite, const std::string& family, const std::string& name,
                         std::chrono::milliseconds took) {
  count(suite, "tests");
  auto test = suite.append_child("testcase");
  set(test, "classname", "lockstep." + family);
  set(test, "name", name);
  char time[32];
  std::snprintf(time, sizeof(time), "%.3f", static_cast<double>(took.count()) / 1000);
  set(test, "time", time);
  return test;
}

void outcome(pugi::xml_node test, const char* element, const char* counter, const std::string& type,
             const std::string& message, const std::string& text) {
  count(test.parent(), counter);
  auto node = test.append_child(element);
  if (!type.empty()) set(node, "type", type);
  set(node, "message", message);
  if (!text.empty()) node.append_child(pugi::node_pcdata).set_value(carried(text).c_str());
}

void property(pugi::xml_node properties, const std::string& name, const std::string& value) {
  auto node = properties.append_child("property");
  set(node, "name", name);
  set(node, "value", value);
}

void add_properties(pugi::xml_node test, const Result& result, const Run& run) {
  auto properties = test.append_child("properties");
  if (run.seed) property(properties, "seed", seed_text(*run.seed));
  property(properties, "cases", std::to_string(result.judged));
  if (result.world_max > 0)
    property(properties, "worlds",
             std::to_string(result.world_min) + "-" + std::to_string(result.world_max));
  property(properties, "subject", result.setting.subject);
  property(properties, "tier", result.setting.tier);
  property(properties, "backend", result.setting.backend);
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
      return outcome(test, "skipped", "skipped", "", result.refused.begin()->first, "");
    case Result::Kind::fail:
    case Result::Kind::flaky:
      return outcome(test, "failure", "failures", type_of(result), message, text);
    default:
      return outcome(test, "error", "errors", type_of(result), message, text);
  }
}

void add_output(pugi::xml_node test, const Result& result) {
  if (!result.failure || result.failure->logs.empty()) return;
  const std::string text = result.failure->tail + "\n[[ATTACHMENT|" +
                           std::filesystem::absolute(result.failure->logs).string() + "]]\n";
  test.append_child("system-out").append_child(pugi::node_pcdata).set_value(carried(text).c_str());
}

void add_canary(pugi::xml_node root, const Run& run) {
  if (run.canary == Run::Canary::not_played) return;
  auto test = test_case(suite(root, "canary"), "canary", "a_scenario_that_must_fail_does", {});
  if (run.canary == Run::Canary::passed)
    outcome(test, "failure", "failures", "canary", "A scenario that must fail passed", "");
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
