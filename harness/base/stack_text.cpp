#include "harness/base/stack_text.h"

#include <algorithm>
#include <array>
#include <initializer_list>

namespace lockstep {

namespace {

using Text = std::string_view;

constexpr Text kUnnamedNamespace = "(anonymous namespace)::";
constexpr Text kOperator = "operator";

// After "operator": symbols that are no brackets there.
constexpr std::array<Text, 11> kSymbols{"()", "<=>", "<<=", ">>=", "->*", "<<",
                                        ">>", "<=",  ">=",  "->",  "<"};

// The length of the operator at `at` in `name`, the word "operator" included.
size_t operator_length(Text name, size_t at) {
  const auto rest = name.substr(at);
  if (!rest.starts_with(kOperator)) return 0;
  const auto behind = rest.substr(kOperator.size());
  for (const Text symbol : kSymbols)
    if (behind.starts_with(symbol)) return kOperator.size() + symbol.size();
  return behind.starts_with('>') ? kOperator.size() + 1 : 0;
}

bool opens(char letter) {
  return letter == '<' || letter == '(' || letter == '[';
}
bool closes(char letter) {
  return letter == '>' || letter == ')' || letter == ']';
}

// Removes everything in brackets.
std::string without_brackets(Text name) {
  std::string out;
  int depth = 0;
  for (size_t at = 0; at < name.size();) {
    if (const auto length = operator_length(name, at)) {
      if (depth == 0) out += name.substr(at, length);
      at += length;
      continue;
    }
    if (depth == 0 && name.substr(at).starts_with(kUnnamedNamespace)) {
      at += kUnnamedNamespace.size();
      continue;
    }
    // The arrow of a trailing type closes no bracket.
    const char letter = name[at++];
    if (opens(letter)) ++depth;
    if (depth == 0) out += letter;
    if (closes(letter) && depth > 0) --depth;
  }
  return out;
}

// "f" of "void f const"; an operator that is a word keeps it: "operator new".
std::string without_return_type(std::string name) {
  for (const Text behind : {" const", " &", " &&", " "})
    if (name.ends_with(behind)) name.resize(name.size() - behind.size());
  const auto word = name.rfind(' ');
  if (word == std::string::npos) return name;
  const auto before = Text(name).substr(0, word);
  if (!before.ends_with(kOperator)) return name.substr(word + 1);
  const auto type = before.rfind(' ');
  return type == Text::npos ? name : name.substr(type + 1);
}

// The end of the function's name, where " at file:line", " at file" or " in library" begins.
size_t place_of(Text line) {
  const Text at_file = " at ";
  const auto at = line.rfind(at_file);
  if (at != Text::npos && line.find_first_of(" (", at + at_file.size()) == Text::npos) return at;
  const auto in = line.rfind(" in ");
  return in == Text::npos ? line.size() : in;
}

bool has_line(Text line) {
  const auto place = line.substr(place_of(line));
  return place.starts_with(" at ") && place.find(':') != Text::npos;
}

bool starts_with_any(Text frame, std::initializer_list<Text> names) {
  return std::any_of(names.begin(), names.end(),
                     [&](const Text name) { return frame.starts_with(name); });
}

// Internal functions of std or of libc.
bool is_internal(Text frame) {
  return starts_with_any(frame, {"std::", "_"});
}

// Functions by which a program raises the signal that its ending names anyway.
bool raises_signal(Text frame) {
  return starts_with_any(frame, {"abort ", "gsignal ", "raise ", "pthread_kill "});
}

// Frames below belong to the caller of the program.
bool is_below_program(Text frame) {
  return frame.starts_with("lockstep::RankRun::run ") ||
         frame.find(" at scenario_inl.h:") != Text::npos;
}

bool has_name(Text frame) {
  return !frame.starts_with("a function in ") && !frame.starts_with("at an address ");
}

}  // namespace

std::string short_frame(std::string_view line) {
  if (!has_name(line)) return std::string(line);
  const auto place = place_of(line);
  auto name = without_return_type(without_brackets(line.substr(0, place)));
  if (name.empty()) return std::string(line);
  return name + std::string(line.substr(place));
}

std::vector<std::string> story_of_stack(const std::vector<std::string>& lines) {
  std::vector<std::string> story;
  for (const auto& line : lines) {
    const auto frame = short_frame(line);
    if (is_below_program(frame)) break;
    const bool is_relevant = has_name(frame) && !is_internal(frame) && !raises_signal(frame);
    if (is_relevant && (story.empty() || has_line(frame))) story.push_back(frame);
    if (frame.starts_with("main at ")) break;
  }
  if (story.empty() && !lines.empty()) {
    const auto named = std::find_if(lines.begin(), lines.end(), has_name);
    story.push_back(short_frame(named == lines.end() ? lines.front() : *named));
  }
  return story;
}

}  // namespace lockstep
