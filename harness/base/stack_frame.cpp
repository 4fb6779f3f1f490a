#include "harness/base/stack_frame.h"

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

bool starts_with_any(Text frame, std::initializer_list<Text> names) {
  return std::any_of(names.begin(), names.end(),
                     [&](const Text name) { return frame.starts_with(name); });
}

// The function's name alone; the whole where nothing else is left of it.
std::string short_name(const StackFrame& frame) {
  auto name = without_return_type(without_brackets(frame.function));
  return name.empty() ? frame.function : name;
}

std::string with_place(const std::string& name, const StackFrame& frame) {
  if (frame.file.empty() && frame.library.empty()) return "at an address of no file";
  const auto whose = name.empty() ? "a function" : name;
  if (frame.file.empty()) return whose + " in " + frame.library;
  return whose + " at " + frame.file + (frame.line > 0 ? ":" + std::to_string(frame.line) : "");
}

// Internal functions of std or of libc; inlined ones of std have no namespace.
bool is_internal(const StackFrame& frame, Text name) {
  return frame.origin == StackFrame::Origin::standard_library ||
         starts_with_any(name, {"std::", "_"});
}

// Functions by which a program raises the signal that its ending names anyway.
bool raises_signal(Text name) {
  return name == "abort" || name == "gsignal" || name == "raise" || name == "pthread_kill";
}

// Frames below belong to the caller of the program.
bool is_below_program(const StackFrame& frame, Text name) {
  return name == "lockstep::RankRun::run" || frame.file == "scenario_inl.h";
}

}  // namespace

std::string StackFrame::text() const {
  return with_place(function, *this);
}

std::string StackFrame::short_text() const {
  return with_place(short_name(*this), *this);
}

std::vector<std::string> story_of(const Stack& stack) {
  std::vector<std::string> story;
  for (const auto& frame : stack) {
    const auto name = short_name(frame);
    if (is_below_program(frame, name)) break;
    const bool is_relevant = !name.empty() && !is_internal(frame, name) && !raises_signal(name);
    if (is_relevant && (story.empty() || frame.line > 0)) story.push_back(frame.short_text());
    if (name == "main" && !frame.file.empty()) break;
  }
  if (story.empty() && !stack.empty()) {
    const auto named = std::find_if(stack.begin(), stack.end(),
                                    [](const auto& frame) { return !frame.function.empty(); });
    story.push_back((named == stack.end() ? stack.front() : *named).short_text());
  }
  return story;
}

}  // namespace lockstep
