#include "cli/commands/commands.h"
#include "cli/exit_codes.h"
#include "cli/launch/program_ranks.h"
#include "cli/machine.h"
#include "cli/output/recording.h"
#include "cli/print.h"
#include "cli/usage.h"
#include "harness/base/text.h"
#include "harness/cases/tier.h"
#include "harness/process/message.h"
#include "harness/process/secret.h"
#include "harness/process/single_threaded.h"
#include "harness/process/zygote.h"
#include "harness/worlds/gloo/served_store.h"
#include "harness/worlds/launched/remotes.h"
#include "harness/worlds/scratch.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <poll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

namespace lockstep::cli {

namespace {

constexpr int kRanksMost = 4096;

struct LaunchFlags {
  std::string ranks, record;
};

void refuse_several_hosts(const std::string& given) {
  const auto name = given.substr(0, given.find('='));
  for (const char* of_several_hosts : {"--nnodes", "--node-rank", "--rendezvous"})
    if (name == of_several_hosts)
      throw UsageError("launch: " + name +
                       ": launch starts ranks on this machine alone; over several hosts start the "
                       "program with torchrun --no-python, srun, mpirun or a Kubernetes operator, "
                       "as docs/scale.md shows");
}

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

void make(const ScratchFolder& folder) {
  try {
    make_scratch(folder.path());
  } catch (const std::filesystem::filesystem_error& error) {
    throw UsageError(folder.path().string() + ": cannot be made: " + error.code().message());
  }
}

void say_what_was_recorded(const std::filesystem::path& folder) {
  if (!folder.empty() && !has_histories(folder))
    print_to_stderr(folder.string() +
                    ": the program recorded nothing: it imports no PyTorch, or lacks a "
                    "lockstep::Recorder in C++");
}

// The caller's secret if it has one, otherwise a fresh one.
std::string secret_of_ranks() {
  const char* const given = std::getenv(kSecretVariable);
  return given && *given ? given : fresh_token();
}

// The ranks are children of a server process, which outlives this one long enough to end them all,
// however this one ends. It is forked before this process has threads.
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

std::string next_of(const Descriptor& signals) {
  signalfd_siginfo info{};
  const auto got = ::read(signals.number(), &info, sizeof(info));
  return std::to_string(got == sizeof(info) ? info.ssi_signo : SIGTERM);
}

// Starts the ranks, by a request to their server, and blocks until they have ended. Passes on
// signals. Throws TierError if the server fails.
ProgramEnd end_of_ranks(int server, const Descriptor& signals) {
  send_message(server, {static_cast<uint32_t>(ServerWord::request), ""});
  for (;;) {
    std::array<pollfd, 2> waited{pollfd{server, POLLIN, 0}, pollfd{signals.number(), POLLIN, 0}};
    ::poll(waited.data(), waited.size(), -1);
    if (waited[1].revents != 0) send_message(server, {kPassedSignal, next_of(signals)});
    if (waited[0].revents == 0) continue;
    const auto received = receive_message(server);
    if (!received) throw TierError("the process that watches over the ranks is gone");
    if (received->kind == static_cast<uint32_t>(ServerWord::failure))
      throw TierError(received->text);
    return from_wire<ProgramEnd>(received->text, "the end of a program");
  }
}

// A shell that became this process may have left it children.
bool has_children() {
  siginfo_t child{};
  return ::waitid(P_ALL, 0, &child, WEXITED | WNOHANG | WNOWAIT) == 0;
}

// Where the server is killed alone, its ranks end with it, and this process ends what they have
// started; unless it has children of its own, which it must not end.
ProgramEnd end_of_launch(const SingleThreaded& alone, ProgramRanks ranks,
                         const Descriptor& signals) {
  const bool ends_orphans = !has_children();
  if (ends_orphans) adopt_orphans();
  const auto listener = listen_on(kLoopback);
  ranks.store_port = listener.port;
  try {
    const Zygote server(alone, server_of(ranks),
                        std::array{signals.number(), listener.socket.number()});
    const ServedStore store(kLoopback, listener);
    return end_of_ranks(server.descriptor(), signals);
  } catch (const TierError&) {
    if (ends_orphans) end_descendants();
    throw;
  }
}

int launch(const LaunchFlags& flags, const std::vector<std::string>& command,
           const SingleThreaded& alone) {
  if (command.empty()) throw UsageError("launch: say which program: launch -n 4 -- PROGRAM ...");
  refuse_several_hosts(command.front());
  refuse_option("launch", command.front());
  require_program(command.front());
  const int count = flags.ranks.empty()
                        ? core_count()
                        : static_cast<int>(whole_number("-n", flags.ranks, 1, kRanksMost));
  const auto record = folder_of_record("--record", flags.record);
  if (!record.empty()) have_python_record();
  require_descriptors(count);
  const auto signals = taken_signals();
  const ScratchFolder folder(temporary_folder());
  make(folder);
  const auto end = end_of_launch(alone,
                                 {.command = command,
                                  .count = count,
                                  .secret = secret_of_ranks(),
                                  .folder = folder.path(),
                                  .record = record,
                                  .run_id = fresh_token()},
                                 signals);
  if (!end.sentence.empty()) print_to_stderr(end.sentence);
  say_what_was_recorded(record);
  return end.exit_code;
}

}  // namespace

void add_launch(CLI::App& app, SingleThreaded& alone, int& status) {
  auto* command = app.add_subcommand("launch", "a program of yours as ranks on this machine");
  const auto flags = std::make_shared<LaunchFlags>();
  command->add_option("-n", flags->ranks, "number of ranks on this machine (the cores)")
      ->type_name("N");
  command
      ->add_option("--record", flags->record,
                   "where a program with a recorder writes its histories, for judge")
      ->type_name("FOLDER");
  command->prefix_command();
  command->footer(
      "launch [-n N] [--record FOLDER] [--] PROGRAM [ARGUMENTS]... sets torchrun's variables for "
      "every rank. The exit code is that of the rank that failed first, or 128 and its signal.");
  command->callback(
      [flags, command, &alone, &status] { status = launch(*flags, command->remaining(), alone); });
}

}  // namespace lockstep::cli
