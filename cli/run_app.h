// Runs a program's command line: parses it, and turns whatever a command throws into one sentence
// and an exit status. Without torch.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace lockstep::cli {

// Opens standard streams that the caller closed, and ignores signals that would end the process
// before it could say what is lost.
void prepare_process();

// Ends the ignoring of signals, in a process that becomes another program.
void handle_signals_as_others_do();

// Prints the sentence, and returns the status.
int refuse(const std::string& text, int status);

// The help leaves out which flags exclude each other, since CLI11 lists them in an order of its
// own, and has examples. Before commands are added, which inherit it.
void use_own_help(CLI::App& app);

// Parses the arguments and runs the command, which sets `status`. Returns the exit status.
int run_app(CLI::App& app, int argc, char** argv, const int& status);

}  // namespace lockstep::cli
