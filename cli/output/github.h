// A run inside GitHub Actions.
#pragma once

#include "harness/cases/result.h"

#include <string>

namespace lockstep::cli {

// True in a step of a workflow, according to the runner's environment variables.
bool on_github();

// Note [Workflow commands]
// GitHub executes any line of a step's output that looks like one of its commands, even text from
// another job's run.json or a rank's last lines. So before printing foreign text we stop commands
// with an unguessable token, and resume them only to print the annotations.
// https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-commands
//
// Output on stderr, which GitHub reads at other times, and output for programs has such lines
// spelled instead.
//
// Both do nothing outside GitHub Actions, or where commands are already stopped or active.
void stop_commands();
void resume_commands();

// In GitHub Actions `text` without commands: "::" at the begin of a line, behind whatever Unicode
// calls space, and "##[" are spelled.
std::string without_commands(std::string text);

// Prints the annotations to stdout, where GitHub looks for them, and appends the step's summary to
// the file that GITHUB_STEP_SUMMARY names. If that cannot be written, prints an error on stderr;
// the run's exit status does not change.
void write_for_github(const Run& run);

}  // namespace lockstep::cli
