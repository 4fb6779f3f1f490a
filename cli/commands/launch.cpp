#include "cli/commands/commands.h"
#include "cli/exit_codes.h"
#include "cli/machine.h"
#include "cli/print.h"
#include "cli/program_ranks.h"
#include "cli/usage.h"
#include "harness/core/text.h"
#include "harness/core/tier.h"
#include "harness/process/message.h"
#include "harness/process/secret.h"
#include "harness/process/single_threaded.h"
#include "harness/process/zygote.h"
#include "harness/worlds/launched/remotes.h"
#include "harness/worlds/served_store.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <poll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

namespace lockstep::cli {

namespace {

constexpr int kRanksMost = 4096;
constexpr char kLoopback[] = "127.0.0.1";

struct Flags {
  std::string ranks;
};

bool can_be_run(const std::string& file) {
  std::error_code cannot_look;
  return std::filesystem::is_regular_file(file, cannot_look) && ::access(file.c_str(), X_OK) == 0;
}

// Finds the program as a shell would.
void require_program(const std::string& name) {
  if (name.find('/') != std::string::npos) {
    if (can_be_run(name)) return;
    throw UsageError("launch: " + name + " is no program that can be run");
  }
  const char* const path = std::getenv("PATH");
  for (const auto& folder : split(path ? path : "/usr/bin:/bin", ':'))
    if (can_be_run((folder.empty() ? "." : folder) + "/" + name)) return;
  throw UsageError("launch: there is no program '" + name + "' in PATH");
}

// Called before any rank is started, since all of them need pipes at once.
void require_descriptors(int ranks) {
  const rlim_t needed = static_cast<rlim_t>(descriptors_for(ranks));
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_max >= needed) return;
  throw UsageError("launch: " + std::to_string(ranks) + " ranks take " + std::to_string(needed) +
                   " open files, and this process may have " + std::to_string(limit.rlim_max) +
                   " (ulimit -Hn)");
}

std::filesystem::path own_folder() {
  auto name = (temporary_folder() / "lockstep-launch-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr)
    throw UsageError(name + ": cannot be made: " + std::strerror(errno));
  return name;
}

// The caller's secret if it has one, otherwise a fresh one.
std::string secret_of_ranks() {
  const char* const given = std::getenv(kSecretVariable);
  return given && *given ? given : fresh_token();
}

// The ranks are children of a server process, which outlives this one long enough to end them all,
// however this one ends.
ZygoteServer server_of(const ProgramRanks& ranks) {
  return {.prepare = [] {},
          .serve = [ranks](const std::string&,
                           int socket) { return to_wire(run_program_ranks(ranks, socket)); },
          .finish = [ranks] { std::filesystem::remove_all(ranks.folder); }};
}

// From now on these signals are read from a descriptor; threads created later inherit that.
Descriptor taken_signals() {
  sigset_t taken;
  sigemptyset(&taken);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2})
    sigaddset(&taken, signal);
  checked(::sigprocmask(SIG_BLOCK, &taken, nullptr), "taking signals");
  return Descriptor(checked(::signalfd(-1, &taken, SFD_CLOEXEC), "taking signals"));
}

ProgramEnd wait_for_end(const Zygote& server, const Descriptor& signals) {
  const int socket = server.descriptor();
  send_message(socket, {static_cast<uint32_t>(ServerWord::request), ""});
  for (;;) {
    std::array<pollfd, 2> readable{pollfd{socket, POLLIN, 0}, pollfd{signals.number(), POLLIN, 0}};
    ::poll(readable.data(), readable.size(), -1);
    if (readable[1].revents != 0) {
      signalfd_siginfo info{};
      if (::read(signals.number(), &info, sizeof(info)) == static_cast<ssize_t>(sizeof(info)))
        send_message(socket, {kPassedSignal, std::to_string(info.ssi_signo)});
    }
    if (readable[0].revents == 0) continue;
    const auto received = receive_message(socket);
    if (!received) throw TierError("the process that watches over the ranks is gone");
    if (received->kind == static_cast<uint32_t>(ServerWord::failure))
      throw TierError(received->text);
    return from_wire<ProgramEnd>(received->text, "the end of a program");
  }
}

int launch(const Flags& flags, const std::vector<std::string>& command,
           const SingleThreaded& alone) {
  if (command.empty()) throw UsageError("launch: say which program: launch -n 4 -- PROGRAM ...");
  require_program(command.front());
  const int count = flags.ranks.empty()
                        ? core_count()
                        : static_cast<int>(whole_number("-n", flags.ranks, 1, kRanksMost));
  require_descriptors(count);
  const auto listener = listen_on(kLoopback);
  const auto signals = taken_signals();
  const Zygote server(alone,
                      server_of({.command = command,
                                 .count = count,
                                 .address = kLoopback,
                                 .port = listener.port,
                                 .secret = secret_of_ranks(),
                                 .folder = own_folder()}),
                      std::array{listener.socket.number(), signals.number()});
  const ServedStore store(kLoopback, listener);
  const auto end = wait_for_end(server, signals);
  if (!end.sentence.empty()) print_to_stderr(end.sentence);
  return end.exit_code;
}

}  // namespace

// CLI11 drops the arguments after "--" of a command without positional arguments, and a command
// that had some would take the program's own flags.
std::vector<std::string> without_separator(std::vector<std::string> arguments) {
  if (arguments.empty() || arguments.front() != "launch") return arguments;
  for (size_t at = 1; at < arguments.size(); at += arguments[at] == "-n" ? 2 : 1) {
    if (!arguments[at].starts_with("-")) break;
    if (arguments[at] != "--") continue;
    arguments.erase(arguments.begin() + static_cast<std::ptrdiff_t>(at));
    break;
  }
  return arguments;
}

void add_launch(CLI::App& app, SingleThreaded& alone, int& status) {
  auto* command = app.add_subcommand("launch", "a program of yours as ranks on this machine");
  const auto flags = std::make_shared<Flags>();
  command->add_option("-n", flags->ranks, "number of ranks (the cores)")->type_name("N");
  command->prefix_command();
  command->footer(
      "launch [-n N] [--] PROGRAM [ARGUMENTS]... sets torchrun's variables for every rank. The "
      "exit "
      "code is that of the rank that failed first, or 128 and its signal.");
  command->callback(
      [flags, command, &alone, &status] { status = launch(*flags, command->remaining(), alone); });
}

}  // namespace lockstep::cli
