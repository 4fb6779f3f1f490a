#include "cli/commands/commands.h"
#include "cli/run/selection.h"

namespace lockstep::cli {

void add_selection(CLI::App& command, Selection& selection) {
  command.add_option("SELECT", selection.patterns, "globs, or the beginnings of names")
      ->type_name("")
      ->check(not_empty());
  const auto repeated = [&](const char* name, std::vector<std::string>& value,
                            const char* placeholder, const char* help) {
    command.add_option(name, value, help)
        ->allow_extra_args(false)
        ->type_name(placeholder)
        ->check(not_empty());
  };
  repeated("--exclude", selection.excluded, "SELECT", "leave out what these match");
  repeated("--tag", selection.tags, "TAGS",
           "scenarios with this tag, or these: \"core and not (join or buffers)\"");
  repeated("--not-tag", selection.not_tags, "TAGS", "no scenario with this tag");
}

}  // namespace lockstep::cli
