// The commands, one per file. Every function adds its command and flags to `app`; the callback that
// CLI11 calls for the chosen command sets `status`, or throws UsageError or NothingSelected. A
// command that forks moves `alone` to what does.
#pragma once

#include <CLI/CLI.hpp>

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace lockstep {
class SingleThreaded;
struct Run;
}  // namespace lockstep

namespace lockstep::cli {

struct CommandLine;  // cli/command_line.h
struct Known;        // cli/known.h
struct Selection;    // cli/run/selection.h

void add_run(CLI::App& app, const Known& known, SingleThreaded& alone, int& status);
void add_list(CLI::App& app, const Known& known, int& status);
void add_explain(CLI::App& app, const Known& known, SingleThreaded& alone, int& status);
void add_replay(CLI::App& app, const Known& known, SingleThreaded& alone, int& status);
void add_demo(CLI::App& app, const Known& known, SingleThreaded& alone, int& status);
// By the checks of a case's scenario, which a program without scenarios lacks.
using JudgeCase =
    std::function<Run(const std::filesystem::path& histories, const std::string& case_file)>;
void add_judge(CLI::App& app, const CommandLine& line, JudgeCase judge_case, int& status);
JudgeCase judge_case_by(const Known& known);
void add_trace(CLI::App& app, int& status);
void add_record(CLI::App& app);
void add_matrix(CLI::App& app, const Known& known, SingleThreaded& alone, int& status);
void add_report(CLI::App& app, const CommandLine& line, int& status);
void add_launch(CLI::App& app, SingleThreaded& alone, int& status);

void add_calibrate(CLI::App& app, SingleThreaded& alone, int& status);
void add_doctor(CLI::App& app, const Known& known, int& status);
// After every other command, which they list.
void add_completion(CLI::App& app, const Known& known, int& status);
void add_man(CLI::App& app, int& status);

// Adds the names and the flags that select scenarios.
void add_selection(CLI::App& command, Selection& selection);

// Refuses an empty value.
inline CLI::Validator not_empty() {
  return {[](const std::string& value) { return value.empty() ? std::string("is empty") : ""; },
          ""};
}

// Refuses "-", which means a standard stream elsewhere.
inline CLI::Validator not_a_stream() {
  return {[](const std::string& value) {
            return value == "-" ? std::string("'-' names no standard stream; ./- is a path") : "";
          },
          ""};
}

// Adds flags that take one value, given by name, value placeholder and help. No value may be empty:
// a variable that a script forgot to set must not mean the default.
class ValueOptions {
 public:
  explicit ValueOptions(CLI::App& command) : command_(command) {}

  CLI::Option* operator()(const char* name, std::string& value, std::string_view placeholder,
                          const char* help) const {
    auto* const option = checked(command_.add_option(name, value, help), placeholder);
    if (placeholder == "FILE" || placeholder == "FOLDER") option->check(not_a_stream());
    return option->capture_default_str();
  }

  // `parsed(name, text)` is the value, or throws UsageError.
  template <class T, class Parsed>
  CLI::Option* operator()(const char* name, T& value, std::string_view placeholder,
                          const char* help, Parsed parsed) const {
    const auto assign = [name, &value, parsed](const std::string& text) {
      value = parsed(name, text);
    };
    return checked(command_.add_option_function<std::string>(name, assign, help), placeholder);
  }

 private:
  static CLI::Option* checked(CLI::Option* option, std::string_view placeholder) {
    return option->type_name(std::string(placeholder))->check(not_empty());
  }

  CLI::App& command_;
};
inline ValueOptions value_options_of(CLI::App& command) {
  return ValueOptions(command);
}

// Throws UsageError where what `command` is to start is an option: CLI11 takes the first unknown
// one for the beginning of the program's command.
void refuse_option(const std::string& command, const std::string& given);

}  // namespace lockstep::cli
