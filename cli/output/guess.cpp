#include "cli/output/guess.h"

#include "cli/print.h"
#include "harness/base/characters.h"
#include "harness/base/text.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <iostream>

namespace lockstep::cli {

namespace {

// As a viewer may write it: "Yes.", "n", "3.0".
std::string plain(std::string answer) {
  std::transform(answer.begin(), answer.end(), answer.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  while (answer.ends_with('.')) answer.pop_back();
  return answer == "y" ? "yes" : answer == "n" ? "no" : answer;
}

bool are_one_number(const std::string& a, const std::string& b) {
  double left = 0, right = 0;
  const auto is_number = [](const std::string& text, double& value) {
    const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
    return read.ec == std::errc() && read.ptr == text.data() + text.size();
  };
  return is_number(a, left) && is_number(b, right) && left == right;
}

bool is_right(const std::string& answer, const std::string& right) {
  return plain(answer) == plain(right) || are_one_number(plain(answer), plain(right));
}

}  // namespace

void ask(const DemoQuestion& question, const reports::Style& style) {
  const auto say = [&](const std::string& text) {
    print(reports::shown(text, style) + "\n", style.columns);
  };
  say(question.text);
  print_shown("> ");
  std::string answer;
  std::getline(std::cin, answer);
  const auto first = answer.find_first_not_of(" \t");
  answer = first == std::string::npos
               ? ""
               : answer.substr(first, answer.find_last_not_of(" \t\r") + 1 - first);
  say(is_right(answer, question.answer) ? "Right: " + question.answer + "."
      : answer.empty()                  ? "It is " + question.answer + "."
                       : "It is " + question.answer + ", not " + excerpt(plain(answer)) + ".");
  say("Why: " + question.why + ".\n");
}

}  // namespace lockstep::cli
