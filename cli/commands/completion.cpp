#include "cli/commands/commands.h"
#include "cli/exit_codes.h"
#include "cli/flag_defaults.h"
#include "cli/known.h"
#include "cli/print.h"
#include "harness/cases/tier.h"

#include <algorithm>
#include <cctype>
#include <filesystem>

namespace lockstep::cli {

namespace {

// The words that a flag's value or a command's argument may be; none: files.
using WordsByPlace = std::map<std::string, std::vector<std::string>>;

WordsByPlace words_by_placeholder(const Known& known) {
  return {{"TIERS", names_of_tiers()},
          {"TIER", names_of_tiers()},
          {"BACKENDS", names_of(known.backends)},
          {"SUBJECTS", known.subjects.names()},
          {"SUBJECT", known.subjects.names()},
          {"FORMAT", {"text", "json"}},
          {"WHEN", {"auto", "always", "never"}}};
}

WordsByPlace words_by_command(const Known& known) {
  std::vector<std::string> scenarios, demos;
  for (const auto& scenario : known.scenarios) scenarios.push_back(scenario.name);
  for (const auto* each : {&known.demos, &known.beliefs})
    for (const auto& demo : *each) demos.push_back(demo.name);
  return {{"run", scenarios},    {"list", scenarios}, {"explain", scenarios},
          {"matrix", scenarios}, {"demo", demos},     {"completion", {"bash", "zsh", "fish"}}};
}

std::vector<std::string> words_at(const WordsByPlace& words, const std::string& place) {
  const auto found = words.find(place);
  return found == words.end() ? std::vector<std::string>() : found->second;
}

struct Flag {
  std::vector<std::string> names;  // "--tier", "-j"
  std::string placeholder, help;   // an empty placeholder: it takes no value
  std::vector<std::string> words;  // that its value may be
};

struct Command {
  std::string name, help;
  std::vector<Flag> flags;
  std::vector<std::string> words;  // that its arguments may be
};

std::vector<Command> commands_of(CLI::App& app, const Known& known) {
  const auto by_placeholder = words_by_placeholder(known), by_command = words_by_command(known);
  std::vector<Command> commands;
  for (auto* const each : app.get_subcommands([](CLI::App*) { return true; })) {
    Command command{
        each->get_name(), each->get_description(), {}, words_at(by_command, each->get_name())};
    for (const auto* const option : flags_of(*each)) {
      Flag flag{{}, "", option->get_description(), {}};
      for (const auto& name : option->get_lnames()) flag.names.push_back("--" + name);
      for (const auto& name : option->get_snames()) flag.names.push_back("-" + name);
      if (option->get_items_expected_max() > 0) flag.placeholder = option->get_type_name();
      flag.words = words_at(by_placeholder, flag.placeholder);
      command.flags.push_back(std::move(flag));
    }
    commands.push_back(std::move(command));
  }
  return commands;
}

// Within single quotes of a shell.
std::string quoted(const std::string& text) {
  std::string out = "'";
  for (const char letter : text)
    out += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
  return out + "'";
}

std::string bash_text(const std::string& program, const std::string& function,
                      const std::vector<Command>& commands) {
  std::vector<std::string> names;
  std::string values, arguments;
  for (const auto& command : commands) {
    names.push_back(command.name);
    std::vector<std::string> flags, files;
    for (const auto& flag : command.flags) {
      flags.insert(flags.end(), flag.names.begin(), flag.names.end());
      if (flag.placeholder.empty()) continue;
      std::vector<std::string> places;
      for (const auto& name : flag.names) places.push_back(command.name + ":" + name);
      if (flag.words.empty())
        files.insert(files.end(), places.begin(), places.end());
      else
        values +=
            "    " + joined(places, "|") + ") words=" + quoted(joined(flag.words, " ")) + " ;;\n";
    }
    if (!files.empty()) values += "    " + joined(files, "|") + ") ;;\n";
    arguments += "      " + command.name + ":-*) words=" + quoted(joined(flags, " ")) + " ;;\n";
    if (!command.words.empty())
      arguments +=
          "      " + command.name + ":*) words=" + quoted(joined(command.words, " ")) + " ;;\n";
  }
  return "# Completion of " + program + " in bash: eval \"$(" + program + " completion bash)\"\n" +
         function +
         "() {\n"
         "  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} "
         "command=${COMP_WORDS[1]} words='' list=''\n"
         "  # Bash parts --flag=value into three words.\n"
         "  if [[ $before == = ]]; then before=${COMP_WORDS[COMP_CWORD-2]}; fi\n"
         "  if [[ $word == = ]]; then word=''; fi\n"
         "  if ((COMP_CWORD == 1)); then command='' words=" +
         quoted(joined(names, " ") + " --help --version") +
         "; fi\n"
         "  case $command:$before in\n" +
         values +
         "    :*) ;;\n"
         "    *)\n"
         "      case $command:$word in\n" +
         arguments +
         "      esac\n"
         "      ;;\n"
         "  esac\n"
         "  if [[ $word == *,* ]]; then list=${word%,*},; fi\n"
         "  mapfile -t COMPREPLY < <(compgen -P \"$list\" -W \"$words\" -- \"${word##*,}\")\n"
         "}\n"
         "complete -o default -F " +
         function + " " + program + "\n";
}

// Brackets and colons end parts of a specification of _arguments.
std::string zsh_help(const std::string& text) {
  std::string out;
  for (const char letter : text) {
    if (letter == '[' || letter == ']' || letter == ':') out += '\\';
    out += letter;
  }
  return out;
}

std::string zsh_values(const std::vector<std::string>& words, const std::string& placeholder) {
  if (words.empty()) return placeholder == "FOLDER" ? "_files -/" : "_files";
  // TIERS is a list, TIER one word.
  if (!placeholder.ends_with('S')) return "(" + joined(words, " ") + ")";
  return "_values -s , " + placeholder + " " + joined(words, " ");
}

std::string zsh_text(const std::string& program, const std::string& function,
                     const std::vector<Command>& commands) {
  std::string names, parts;
  for (const auto& command : commands) {
    names += "    " + quoted(zsh_help(command.name) + ":" + command.help) + "\n";
    parts += "    " + command.name + ")\n      _arguments -s";
    for (const auto& flag : command.flags)
      for (const auto& name : flag.names)
        parts += " \\\n        " +
                 quoted("*" + name + "[" + zsh_help(flag.help) + "]" +
                        (flag.placeholder.empty() ? ""
                                                  : ":" + flag.placeholder + ":" +
                                                        zsh_values(flag.words, flag.placeholder)));
    parts += " \\\n        " +
             quoted("*:argument:" +
                    (command.words.empty() ? "_files" : "(" + joined(command.words, " ") + ")")) +
             "\n      ;;\n";
  }
  return "#compdef " + program +
         "\n"
         "# Completion of " +
         program + " in zsh: eval \"$(" + program + " completion zsh)\"\n" + function +
         "() {\n"
         "  local -a commands=(\n" +
         names +
         "  )\n"
         "  if ((CURRENT == 2)); then\n"
         "    _describe command commands\n"
         "    return\n"
         "  fi\n"
         "  local command=$words[2]\n"
         "  shift words\n"
         "  ((CURRENT--))\n"
         "  case $command in\n" +
         parts +
         "  esac\n"
         "}\n"
         "if [[ $funcstack[1] == " +
         function + " ]]; then " + function + " \"$@\"; else compdef " + function + " " + program +
         "; fi\n";
}

std::string fish_text(const std::string& program, const std::vector<Command>& commands) {
  std::string text =
      "# Completion of " + program + " in fish: " + program + " completion fish | source\n";
  for (const auto& command : commands)
    text += "complete -c " + program + " -n __fish_use_subcommand -f -a " + command.name + " -d " +
            quoted(command.help) + "\n";
  for (const auto& command : commands) {
    const auto begin =
        "complete -c " + program + " -n '__fish_seen_subcommand_from " + command.name + "'";
    if (!command.words.empty())
      text += begin + " -f -a " + quoted(joined(command.words, " ")) + "\n";
    for (const auto& flag : command.flags) {
      text += begin;
      for (const auto& name : flag.names)
        text += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
      if (!flag.placeholder.empty())
        text += flag.words.empty() ? " -r" : " -x -a " + quoted(joined(flag.words, " "));
      text += " -d " + quoted(flag.help) + "\n";
    }
  }
  return text;
}

std::string completion_text(const std::string& shell, CLI::App& app, const Known& known) {
  const auto program = std::filesystem::path(known.program).filename().string();
  std::string function = "_" + program;
  for (char& letter : function)
    if (!std::isalnum(static_cast<uint8_t>(letter))) letter = '_';
  const auto commands = commands_of(app, known);
  if (shell == "bash") return bash_text(program, function, commands);
  return shell == "zsh" ? zsh_text(program, function, commands) : fish_text(program, commands);
}

}  // namespace

void add_completion(CLI::App& app, const Known& known, int& status) {
  auto* command =
      app.add_subcommand("completion", "a script that completes commands in bash, zsh or fish");
  const auto shell = std::make_shared<std::string>();
  command->add_option("SHELL", *shell, "bash, zsh or fish")->required()->type_name("");
  command->callback([&app, &known, &status, shell] {
    words("completion", *shell, {"bash", "zsh", "fish"});
    print_for_programs(completion_text(*shell, app, known));
    status = kHeld;
  });
}

}  // namespace lockstep::cli
