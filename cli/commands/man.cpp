#include "cli/command_line.h"
#include "cli/commands/commands.h"
#include "cli/examples.h"
#include "cli/exit_codes.h"
#include "cli/flag_defaults.h"
#include "cli/print.h"
#include "harness/base/text.h"

#include <filesystem>

namespace lockstep::cli {

namespace {

// As a line of text of roff: no request, and no hyphen that becomes another character.
std::string roff(const std::string& text) {
  std::string out;
  for (const char letter : text) {
    if (letter == '\\')
      out += "\\e";
    else if (letter == '-')
      out += "\\-";
    else
      out += letter;
  }
  return out.starts_with('.') || out.starts_with('\'') ? "\\&" + out : out;
}

std::string flag_text(const CLI::App& command, const CLI::Option& flag) {
  std::vector<std::string> names;
  for (const auto& name : flag.get_snames()) names.push_back("\\fB" + roff("-" + name) + "\\fR");
  for (const auto& name : flag.get_lnames()) names.push_back("\\fB" + roff("--" + name) + "\\fR");
  std::string value;
  if (flag.get_items_expected_max() > 0) value = " \\fI" + roff(flag.get_type_name()) + "\\fR";
  const auto preset = flag.get_default_str();
  return ".TP\n" + joined(names, ", ") + value + "\n" + roff(flag.get_description()) +
         (preset.empty() ? "" : " (" + roff(preset) + ")") + ". Variable " +
         roff(variable_of(command.get_name(), flag)) + ".\n";
}

std::string command_text(CLI::App& command, const std::string& footer_of_all) {
  std::string synopsis = "\\fB" + roff(command.get_name()) + "\\fR [\\fIOPTION\\fR...]", arguments;
  for (const auto* const option : command.get_options()) {
    if (!option->get_positional()) continue;
    synopsis += " \\fI" + roff(option->get_name()) + "\\fR";
    arguments +=
        ".TP\n\\fI" + roff(option->get_name()) + "\\fR\n" + roff(option->get_description()) + ".\n";
  }
  std::string text = ".SS " + roff(command.get_name()) + "\n" + synopsis + "\n.PP\n" +
                     roff(command.get_description()) + ".\n" + arguments;
  for (const auto* const flag : flags_of(command)) text += flag_text(command, *flag);
  if (command.get_footer() != footer_of_all) text += ".PP\n" + roff(command.get_footer()) + "\n";
  if (const auto examples = examples_of(command.get_name()); !examples.empty())
    text += ".PP\n.nf\n" + roff(examples) + ".fi\n";
  return text;
}

std::string man_text(CLI::App& app) {
  const auto program = std::filesystem::path(app.get_name()).filename().string();
  std::string text =
      ".TH " + roff(program) + " 1 \"\" \"" + program + " " + kVersion + "\"\n.SH NAME\n" +
      roff(program) + " \\- " + roff(app.get_description()) + "\n.SH SYNOPSIS\n\\fB" +
      roff(program) +
      "\\fR \\fICOMMAND\\fR [\\fIOPTION\\fR...] [\\fIARGUMENT\\fR...]\n.SH COMMANDS\n";
  for (auto* const command : app.get_subcommands([](CLI::App*) { return true; }))
    text += command_text(*command, app.get_footer());
  text += ".SH EXIT STATUS\n.nf\n";
  for (const auto& line : split(kExitCodesHelp, '\n'))
    if (line.starts_with(' ')) text += roff(line) + "\n";
  text +=
      ".fi\n.SH ENVIRONMENT\nA variable LOCKSTEP_COMMAND_FLAG is the default of a flag: "
      "LOCKSTEP_RUN_SEED, of "
      "\\fBrun \\-\\-seed\\fR.\nNO_COLOR, or CLICOLOR=0, leaves colour out; FORCE_COLOR or "
      "CLICOLOR_FORCE "
      "has it without a terminal.\n.SH FILES\n.TP\n" +
      std::string(kDefaultsFile) +
      "\nDefaults of flags, in the working folder: a section for each command, and a key for each "
      "flag.\n.TP\n"
      "\\&.lockstep\nRuns, and the cases that failed.\n";
  return text;
}

}  // namespace

void add_man(CLI::App& app, int& status) {
  auto* command = app.add_subcommand("man", "the manual page, for man: man | man -l -");
  command->callback([&app, &status] {
    print_for_programs(man_text(app));
    status = kHeld;
  });
}

}  // namespace lockstep::cli
