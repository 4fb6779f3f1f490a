#include "cli/commands/commands.h"
#include "cli/exit_codes.h"
#include "cli/launch/nodes.h"
#include "cli/launch/program_ranks.h"
#include "cli/launch/watch_nodes.h"
#include "cli/machine.h"
#include "cli/print.h"
#include "cli/usage.h"
#include "harness/core/text.h"
#include "harness/core/tier.h"
#include "harness/process/secret.h"
#include "harness/process/single_threaded.h"
#include "harness/process/zygote.h"
#include "harness/worlds/launched/remotes.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

namespace lockstep::cli {

namespace {

struct LaunchFlags {
  std::string ranks, nodes, node, rendezvous, timeout, record;
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

bool has_histories(const std::filesystem::path& folder) {
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(folder, none))
    if (entry.path().extension() == ".history") return true;
  return false;
}

// Where the ranks record; empty where they do not. A folder holds one run.
std::filesystem::path folder_of_record(const std::string& record) {
  if (record.empty()) return {};
  if (record.front() == '-')
    throw UsageError("--record takes a folder, and '" + record + "' is an option; ./" + record +
                     " is a folder of that name");
  std::error_code error;
  if (std::filesystem::exists(record, error) && !std::filesystem::is_directory(record, error))
    throw UsageError("--record " + record + ": is no folder");
  if (has_histories(record))
    throw UsageError("--record " + record + ": holds a recorded run already; name a new folder");
  return std::filesystem::absolute(record);
}

void say_what_was_recorded(const std::filesystem::path& folder) {
  if (!folder.empty() && !has_histories(folder))
    print_to_stderr(
        folder.string() +
        ": the program recorded nothing; start it with python -m lockstep_recorder, let it "
        "call lockstep_recorder.start(), or give it a lockstep::Recorder in C++");
}

// The caller's secret if it has one, otherwise a fresh one; several nodes cannot agree on one
// without sending it.
std::string secret_of_ranks(const NodePlace& place) {
  const char* const given = std::getenv(kSecretVariable);
  if (given && *given) return given;
  return place.count == 1 ? fresh_token() : "";
}

// "HOST:PORT", "[::1]:PORT", or "HOST" for torchrun's port.
std::pair<std::string, int> host_and_port(const std::string& text) {
  constexpr int kUsualPort = 29500;
  const auto colon = text.rfind(':');
  const bool is_number_alone = text.find(':') != colon && !text.starts_with('[');
  auto host = is_number_alone ? text : text.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  if (host.empty() || host.find_first_of("[]/ ") != std::string::npos)
    throw UsageError("--rendezvous " + text + ": expected HOST:PORT, the address of node 0");
  if (is_number_alone || colon == std::string::npos) return {host, kUsualPort};
  const auto port = whole_number("--rendezvous", text.substr(colon + 1), 1, 65535);
  return {host, static_cast<int>(port)};
}

NodePlace place_of(const LaunchFlags& flags) {
  if (flags.nodes.empty()) {
    for (const auto& [name, value] : {std::pair{"--node-rank", &flags.node},
                                      {"--rendezvous", &flags.rendezvous},
                                      {"--timeout", &flags.timeout}})
      if (!value->empty())
        throw UsageError(std::string("launch: ") + name + " is for several nodes: say --nnodes");
    return {};
  }
  NodePlace place{.limit = std::chrono::minutes(5)};
  place.count = static_cast<int>(whole_number("--nnodes", flags.nodes, 1, kNodesMost));
  if (!flags.timeout.empty()) place.limit = time_limit("--timeout", flags.timeout);
  if (place.count > 1 && (flags.node.empty() || flags.rendezvous.empty()))
    throw UsageError(
        "launch: several nodes need --node-rank, from 0 on, and --rendezvous HOST:PORT, the "
        "address of node 0");
  if (!flags.node.empty())
    place.node = static_cast<int>(whole_number("--node-rank", flags.node, 0, place.count - 1));
  if (!flags.rendezvous.empty()) std::tie(place.host, place.port) = host_and_port(flags.rendezvous);
  return place;
}

// The ranks are children of a server process, which outlives this one long enough to end them all,
// however this one ends. It is forked before this process has threads, and learns where the ranks
// are once all nodes have come.
ZygoteServer server_of(const ProgramRanks& ranks) {
  return {.prepare = [] {},
          .serve =
              [ranks](const std::string& request, int socket) {
                auto placed = ranks;
                placed.is = from_wire<RanksOfNode>(request, "the place of the ranks");
                return to_wire(run_program_ranks(placed, socket));
              },
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

int launch(const LaunchFlags& flags, const std::vector<std::string>& command,
           const SingleThreaded& alone) {
  if (command.empty()) throw UsageError("launch: say which program: launch -n 4 -- PROGRAM ...");
  require_program(command.front());
  const int count = flags.ranks.empty()
                        ? core_count()
                        : static_cast<int>(whole_number("-n", flags.ranks, 1, kRanksMost));
  const auto place = place_of(flags);
  const auto record = folder_of_record(flags.record);
  require_descriptors(count);
  const auto signals = taken_signals();
  const Zygote server(alone,
                      server_of({.command = command,
                                 .count = count,
                                 .secret = secret_of_ranks(place),
                                 .folder = own_folder(),
                                 .record = record}),
                      std::array{signals.number()});
  ProgramEnd end;
  try {
    end = watch_nodes(server, signals, rendezvous_of_nodes(place, count, signals));
  } catch (const Signalled& ended) {
    end = {.exit_code = 128 + ended.signal,
           .sentence = "ended by " + signal_name(ended.signal) + " before all nodes had come"};
  }
  if (!end.sentence.empty()) print_to_stderr(end.sentence);
  say_what_was_recorded(record);
  return end.exit_code;
}

}  // namespace

// CLI11 drops the arguments after "--" of a command without positional arguments, and a command
// that had some would take the program's own flags.
std::vector<std::string> without_separator(std::vector<std::string> arguments) {
  if (arguments.empty() || arguments.front() != "launch") return arguments;
  const std::array with_value{"-n",           "--nnodes",  "--node-rank",
                              "--rendezvous", "--timeout", "--record"};
  const auto has_value = [&](const std::string& argument) {
    return std::find(with_value.begin(), with_value.end(), argument) != with_value.end();
  };
  for (size_t at = 1; at < arguments.size(); at += has_value(arguments[at]) ? 2 : 1) {
    if (!arguments[at].starts_with("-")) break;
    if (arguments[at] != "--") continue;
    arguments.erase(arguments.begin() + static_cast<std::ptrdiff_t>(at));
    break;
  }
  return arguments;
}

void add_launch(CLI::App& app, SingleThreaded& alone, int& status) {
  auto* command =
      app.add_subcommand("launch", "a program of yours as ranks on this machine, or on several");
  const auto flags = std::make_shared<LaunchFlags>();
  command->add_option("-n", flags->ranks, "number of ranks on this machine (the cores)")
      ->type_name("N");
  command->add_option("--nnodes", flags->nodes, "number of machines that launch it (1)")
      ->type_name("N");
  command->add_option("--node-rank", flags->node, "this machine's number, from 0 on")
      ->type_name("K");
  command
      ->add_option("--rendezvous", flags->rendezvous,
                   "where machine 0 is reached, which serves the others")
      ->type_name("HOST:PORT");
  command->add_option("--timeout", flags->timeout, "until all machines must have come (300)")
      ->type_name("S");
  command
      ->add_option("--record", flags->record,
                   "where a program with a recorder writes its histories, for judge")
      ->type_name("FOLDER");
  command->prefix_command();
  command->footer(
      "launch [-n N] [--nnodes N --node-rank K --rendezvous HOST:PORT] [--record FOLDER] [--] "
      "PROGRAM "
      "[ARGUMENTS]... sets torchrun's variables for every rank. The exit code is that of the rank "
      "that failed first, or 128 and its signal.");
  command->callback(
      [flags, command, &alone, &status] { status = launch(*flags, command->remaining(), alone); });
}

}  // namespace lockstep::cli
