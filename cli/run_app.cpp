#include "cli/run_app.h"

#include "cli/commands/commands.h"
#include "cli/examples.h"
#include "cli/exit_codes.h"
#include "cli/flag_defaults.h"
#include "cli/interrupt.h"
#include "cli/output/github.h"
#include "cli/print.h"
#include "cli/usage.h"
#include "harness/archive/archive.h"
#include "harness/base/characters.h"
#include "harness/base/text.h"
#include "harness/cases/tier.h"
#include "harness/process/system_limit.h"
#include "harness/worlds/subjects.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <iostream>
#include <new>
#include <poll.h>
#include <sstream>
#include <unistd.h>

namespace lockstep::cli {

// The sentence may quote a file: Note [Workflow commands].
int refuse(const std::string& text, int status) {
  stop_commands();
  print_to_stderr(text);
  return status;
}

namespace {

// A reader that closes the pipe must not end the run before it writes the archive: with SIGPIPE
// ignored the write only fails. Nor may a limit on file sizes: the write fails, and what is lost
// has a sentence. Nor may a request for a status report that comes before one can be given, or
// after.
constexpr std::array kIgnored{SIGPIPE, SIGXFSZ, SIGUSR1};

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const auto* command : app.get_subcommands({})) names.push_back(command->get_name());
  return names;
}

std::vector<std::string> flag_names(CLI::App& command) {
  std::vector<std::string> names;
  for (const auto* flag : flags_of(command)) names.push_back(flag->get_name());
  return names;
}

// Where the flags' values may have come from, besides the command line.
std::string note_of(const std::vector<std::string>& defaults) {
  return defaults.empty() ? "" : " (read too: " + joined(defaults, ", ") + ")";
}

// CLI11 drops the arguments after "--" of a command without positional arguments, and a command
// that had some would take the program's own flags. So the "--" before a program that a command
// starts goes.
std::vector<std::string> without_separator(const CLI::App& app,
                                           std::vector<std::string> arguments) {
  const auto commands = app.get_subcommands([&](const CLI::App* each) {
    return each->get_prefix_command() && each->check_name(arguments.empty() ? "" : arguments[0]);
  });
  if (commands.empty()) return arguments;
  const auto has_value = [&](const std::string& argument) {
    const auto* const option = commands.front()->get_option_no_throw(argument);
    return option != nullptr && option->get_items_expected_max() > 0;
  };
  for (size_t at = 1; at < arguments.size(); at += has_value(arguments[at]) ? 2 : 1) {
    if (!arguments[at].starts_with("-")) break;
    if (arguments[at] != "--") continue;
    arguments.erase(arguments.begin() + static_cast<std::ptrdiff_t>(at));
    break;
  }
  return arguments;
}

// CLI11's error, reworded where it is not a sentence.
std::string sentence(CLI::App& app, const CLI::ParseError& error) {
  const auto chosen = app.get_subcommands();
  CLI::App& command = chosen.empty() ? app : *chosen.front();
  const std::string what = error.what();
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error))
    return what.substr(0, what.find(':')) + ": expected one value, given once";
  if (dynamic_cast<const CLI::ExcludesError*>(&error)) {
    const std::string between = " excludes ";
    const auto place = what.find(between);
    return what.substr(0, place) + " and " + what.substr(place + between.size()) +
           " exclude each other";
  }
  const auto unknown = app.remaining(/*recurse=*/true);
  if (unknown.empty() || !dynamic_cast<const CLI::ExtrasError*>(&error)) return what;
  const auto flag = unknown.front().substr(0, unknown.front().find('='));
  return "unknown argument '" + flag + "'" + did_you_mean(flag, flag_names(command));
}

// Answers --help and --version.
int show(CLI::App& app, const CLI::ParseError& error) {
  std::ostringstream text;
  const int status = app.exit(error, text, text);
  print(text.str());
  return status;
}

int refuse_and_show_help(const std::string& text, const std::string& program) {
  return refuse(one_line(text) + "\n'" + program + " --help' shows the usage", kUsage);
}

int parse_and_run(CLI::App& app, int argc, char** argv, const int& status) {
  const std::string program = app.get_name();
  const auto commands = command_names(app);
  std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  if (!words.empty() && words.front() == "help") {  // `help run` is `run --help`
    words.erase(words.begin());
    words.emplace_back("--help");
  }
  const std::string first = words.empty() ? "" : words.front();
  if (first.empty()) {
    print_help_to_stderr(app.help());
    return kUsage;
  }
  if (first[0] != '-' && std::find(commands.begin(), commands.end(), first) == commands.end())
    return refuse_and_show_help("unknown command '" + first + "'" + did_you_mean(first, commands) +
                                    "; known: " + joined(commands, ", "),
                                program);
  std::vector<std::string> defaults;
  try {
    if (first[0] != '-') defaults = apply_defaults(app, first);
    auto arguments = without_separator(app, words);
    std::reverse(arguments.begin(), arguments.end());  // CLI11 expects them reversed
    app.parse(std::move(arguments));
    return status;
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return show(app, error);
    return refuse_and_show_help(sentence(app, error), program + " " + first);
  } catch (const UsageError& error) {
    return refuse(one_line(error.what()) + note_of(defaults), kUsage);
  } catch (const FieldError& error) {
    return refuse(one_line(error.what()) + note_of(defaults), kUsage);
  } catch (const ArchiveError& error) {
    return refuse(one_line(error.what()), kUsage);
  } catch (const SubjectError& error) {
    return refuse(one_line(error.what()), kUsage);
  } catch (const TierError& error) {  // this machine lacks what the tier needs
    return refuse(error.what(), kUsage);
  } catch (const std::bad_alloc&) {
    return refuse("memory ran out: " + reason_of(ENOMEM), kUsage);
  } catch (const DrawingInterrupted& error) {
    return refuse(error.what(), kInterrupted);
  } catch (const NothingSelected& error) {
    return refuse(one_line(error.what()) + note_of(defaults), kNothingSelected);
  } catch (const std::exception& error) {
    return refuse(std::string("internal error: ") + error.what(), kInternal);
  }
}

// The next opened descriptor, such as a lane's socket, would reuse the number of a standard stream
// that the caller closed, and our output would go there.
void open_closed_standard_streams() {
  int opened = open("/dev/null", O_RDWR);
  while (opened >= 0 && opened <= STDERR_FILENO) opened = open("/dev/null", O_RDWR);
  if (opened >= 0) close(opened);
}

bool reader_of_stdout_has_gone() {
  pollfd out{STDOUT_FILENO, POLLOUT, 0};
  return poll(&out, 1, 0) == 1 && (out.revents & POLLERR) != 0;
}

}  // namespace

void refuse_option(const std::string& command, const std::string& given) {
  if (given.starts_with('-'))
    throw UsageError(command + ": unknown option '" + given.substr(0, given.find('=')) + "'");
}

void use_own_help(CLI::App& app) {
  class Help : public CLI::Formatter {
    std::string make_option_opts(const CLI::Option* option) const override {
      const auto text = CLI::Formatter::make_option_opts(option);
      return text.substr(0, text.find(" " + get_label("Excludes") + ":"));
    }
    std::string make_footer(const CLI::App* app) const override {
      const auto examples = examples_of(app->get_parent() ? app->get_name() : "");
      return (examples.empty() ? "" : examples + "\n") + CLI::Formatter::make_footer(app);
    }
  };
  app.formatter(std::make_shared<Help>());
}

void prepare_process() {
  open_closed_standard_streams();
  for (const int signal : kIgnored) std::signal(signal, SIG_IGN);
  // As in a shell, an empty TMPDIR is one that is not set.
  if (const char* folder = std::getenv("TMPDIR"); folder && !*folder) ::unsetenv("TMPDIR");
}

void handle_signals_as_others_do() {
  for (const int signal : kIgnored) std::signal(signal, SIG_DFL);
}

int run_app(CLI::App& app, int argc, char** argv, const int& status) {
  const int result = parse_and_run(app, argc, argv, status);
  resume_commands();
  // A report that could not be written is an error, except where the reader closed the pipe, as
  // `head` does.
  if (!std::cout.flush() && result == kHeld && !reader_of_stdout_has_gone())
    return refuse("standard output cannot be written", kUsage);
  return result;
}

}  // namespace lockstep::cli
