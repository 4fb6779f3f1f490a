// Readers of JUnit XML, and what they need:
//  - Jenkins' xUnit plugin holds files to its junit-10.xsd: the elements and attributes
//    below. The schema has properties of suites only. We put them into test cases,
//    first, as pytest does, since Jenkins' own JUnit plugin and test-management servers read them
//    there.
//  - Jenkins' JUnit plugin takes the failures for the truth and the counts for a summary; its
//    attachments plugin wants "[[ATTACHMENT|/absolute/path]]" on a line of its own.
//  - GitLab matches tests of two pipelines by class name and name, drops all but the first of equal
//    ones, and reads the first attachment of a case's output.
//  - The usual GitHub actions group by suite, add up `time` as a decimal number, and show the
//    message of a failure or an error, and of a skip.
#include "tests/reports/junit_rules.h"

#include <pugixml.hpp>

#include <map>
#include <regex>
#include <set>

namespace lockstep::reports {

namespace {

using Problems = std::vector<std::string>;

const std::map<std::string, std::set<std::string>> kAttributes{
    {"testsuites", {"name", "time", "tests", "failures", "errors"}},
    {"testsuite", {"name", "tests", "failures", "errors", "skipped", "time"}},
    {"testcase", {"name", "classname", "time"}},
    {"failure", {"type", "message"}},
    {"error", {"type", "message"}},
    {"skipped", {"type", "message"}},
    {"properties", {}},
    {"property", {"name", "value"}},
    {"system-out", {}},
};

const std::map<std::string, std::set<std::string>> kChildren{
    {"testsuites", {"testsuite"}},
    {"testsuite", {"testcase"}},
    {"testcase", {"properties", "failure", "error", "skipped", "system-out"}},
    {"properties", {"property"}},
};

std::string named(const pugi::xml_node& node) {
  return std::string("<") + node.name() + " " + node.attribute("name").value() + ">";
}

// Elements and attributes are those of the schema; what it requires is there.
void check_vocabulary(const pugi::xml_node& node, Problems& out) {
  const auto attributes = kAttributes.find(node.name());
  if (attributes == kAttributes.end()) {
    out.push_back("an element that no reader knows: " + named(node));
    return;
  }
  for (const auto& attribute : node.attributes())
    if (!attributes->second.contains(attribute.name()))
      out.push_back(named(node) + " has an unknown attribute " + attribute.name());
  for (const auto& wanted : attributes->second)
    if (!node.attribute(wanted.c_str()) &&
        !(wanted == "type" && node.name() == std::string("skipped")))
      out.push_back(named(node) + " has no " + wanted);
  const auto children = kChildren.find(node.name());
  for (const auto& child : node.children()) {
    if (child.type() != pugi::node_element) continue;
    if (children == kChildren.end() || !children->second.contains(child.name()))
      out.push_back(named(node) + " may not hold " + named(child));
    check_vocabulary(child, out);
  }
}

void check_counts(const pugi::xml_node& node, Problems& out) {
  const auto count = [&](const char* attribute, const std::string& elements) {
    const auto found = node.select_nodes((".//" + elements).c_str()).size();
    if (node.attribute(attribute) && node.attribute(attribute).as_uint() != found)
      out.push_back(named(node) + " says " + attribute + " " + node.attribute(attribute).value() +
                    " and holds " + std::to_string(found));
  };
  count("tests", "testcase");
  count("failures", "failure");
  count("errors", "error");
  count("skipped", "skipped");
}

void check_time(const pugi::xml_node& node, Problems& out) {
  static const std::regex decimal("[0-9]+\\.[0-9]+");
  if (!std::regex_match(node.attribute("time").value(), decimal))
    out.push_back(named(node) + " has no decimal time: " + node.attribute("time").value());
}

void check_times_add_up(const pugi::xml_node& suite, Problems& out) {
  double sum = 0;
  for (const auto& test : suite.select_nodes(".//testcase"))
    sum += test.node().attribute("time").as_double();
  if (std::abs(sum - suite.attribute("time").as_double()) > 1e-6)
    out.push_back(named(suite) + " took another time than its tests");
}

void check_names(const pugi::xml_document& document, Problems& out) {
  static const std::regex unstable("0x[0-9a-f]|/|[0-9]{8}|seed");
  std::set<std::string> seen, suites;
  for (const auto& found : document.select_nodes("//testsuite"))
    if (!suites.insert(found.node().attribute("name").value()).second)
      out.push_back("two suites of one name: " + named(found.node()));
  for (const auto& found : document.select_nodes("//testcase")) {
    const std::string name = found.node().attribute("name").value();
    const std::string whole = std::string(found.node().attribute("classname").value()) + " " + name;
    if (!seen.insert(whole).second) out.push_back("two tests of one name: " + whole);
    if (name.empty() || std::regex_search(name, unstable))
      out.push_back("not a stable name: " + name);
  }
}

// Properties, then at most one outcome, then output: some readers stop at the first they know.
void check_order(const pugi::xml_node& test, Problems& out) {
  std::string order;
  for (const auto& child : test.children()) {
    const std::string name = child.name();
    order += name == "properties" ? 'p' : name == "system-out" ? 'o' : 'r';
  }
  if (!std::regex_match(order, std::regex("p?r?o?")))
    out.push_back(named(test) + " holds its parts in the order " + order);
}

void check_outcome(const pugi::xml_node& test, Problems& out) {
  for (const char* outcome : {"failure", "error", "skipped"})
    if (auto node = test.child(outcome); node && !*node.attribute("message").value())
      out.push_back(named(test) + " has no message");
  for (const char* name : {"seed", "world", "tier", "backend", "replay"})
    if (test.child("failure") && test.child("properties") &&
        !test.child("properties").find_child_by_attribute("property", "name", name))
      out.push_back(named(test) + " failed and has no property " + name);
}

void check_attachments(const pugi::xml_node& test, Problems& out) {
  static const std::regex alone("(^|\\n)\\[\\[ATTACHMENT\\|/[^\\]\\n]+\\]\\](\\n|$)");
  const std::string text = test.child("system-out").text().get();
  if (text.find("[[ATTACHMENT") != std::string::npos && !std::regex_search(text, alone))
    out.push_back(named(test) + " has an attachment that is no absolute path on its own line");
}

// XML 1.0 forbids most control characters even as references; parsers that keep to it refuse all.
void check_characters(const std::string& xml, Problems& out) {
  for (const char byte : xml)
    if (static_cast<unsigned char>(byte) < 0x20 && byte != '\n' && byte != '\t')
      out.push_back("a control character");
  static const std::regex reference("&#(x[0-9a-fA-F]+|[0-9]+);");
  for (std::sregex_iterator at(xml.begin(), xml.end(), reference), end; at != end; ++at) {
    const std::string digits = (*at)[1];
    const int code =
        digits[0] == 'x' ? std::stoi(digits.substr(1), nullptr, 16) : std::stoi(digits);
    if (code < 0x20 && code != 9 && code != 10 && code != 13)
      out.push_back("a reference to a control character");
  }
}

}  // namespace

std::vector<std::string> junit_problems(const std::string& xml) {
  Problems out;
  check_characters(xml, out);
  pugi::xml_document document;
  if (!document.load_string(xml.c_str())) return {"not well-formed"};
  const auto root = document.document_element();
  if (root.name() != std::string("testsuites")) out.push_back("the root is " + named(root));
  check_vocabulary(root, out);
  check_names(document, out);
  for (const auto& found : document.select_nodes("//testsuites | //testsuite")) {
    check_counts(found.node(), out);
    check_time(found.node(), out);
    check_times_add_up(found.node(), out);
  }
  for (const auto& found : document.select_nodes("//testcase")) {
    check_time(found.node(), out);
    check_order(found.node(), out);
    check_outcome(found.node(), out);
    check_attachments(found.node(), out);
  }
  return out;
}

}  // namespace lockstep::reports
