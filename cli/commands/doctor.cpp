#include "cli/commands/commands.h"
#include "cli/exit_codes.h"
#include "cli/known.h"
#include "cli/machine.h"
#include "cli/print.h"
#include "cli/run/run_campaign.h"
#include "harness/base/text.h"
#include "harness/cuda/nccl.h"
#include "harness/worlds/about.h"

#include <cstdio>
#include <utility>

namespace lockstep::cli {

namespace {

using Lines = std::vector<std::pair<std::string, std::string>>;

// Minimums for a run with worlds of four ranks.
constexpr int64_t kFilesWanted = 1024;
constexpr int64_t kProcessesWanted = 256;
constexpr int64_t kDiskWanted = int64_t{256} << 20;
constexpr int64_t kMemoryWanted = int64_t{2} << 30;

std::string gibibytes(int64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f GiB",
                static_cast<double>(bytes) / static_cast<double>(1 << 30));
  return text;
}

std::string limit_text(const std::optional<int64_t>& limit) {
  return limit ? with_commas(*limit) : "unlimited";
}

std::string about_cuda() {
  const std::string version = cuda::cuda_of_libtorch();
  return version.empty() ? "no: this LibTorch is one for the CPU alone" : version + ", LibTorch's";
}

std::string about_nccl() {
  const cuda::NcclLibrary& nccl = cuda::load_nccl();
  if (nccl.problem.empty()) return nccl.version + " (" + cuda::nccl_build_reason() + ")";
  return "no: " + nccl.problem;
}

// The driver is queried only where its library was loaded.
std::string about_gpus(const std::string& seen) {
  if (!cuda::load_nccl().problem.empty()) return seen;
  const cuda::Gpus gpus = cuda::usable_gpus();
  return gpus.problem.empty() ? std::to_string(gpus.names.size()) + " usable"
                              : seen + ": " + gpus.problem;
}

std::string about_pytorch(const Subjects& subjects) {
  if (!subjects.contains("pytorch")) return "no: this program has no such subject";
  const auto reason = subjects.why_not("pytorch");
  return reason.empty() ? "yes: --subject pytorch" : "no: " + reason;
}

Lines found(const Machine& machine, const AboutTorch& torch, const Subjects& subjects) {
  return {
      {"lockstep", kVersion},
      {"libtorch", torch.version + " (" + torch.library + ")"},
      {"gloo", torch.gloo ? "yes" : "no: LibTorch was built without it"},
      {"cuda", about_cuda()},
      {"nccl", about_nccl()},
      {"pytorch", about_pytorch(subjects)},
      {"mpi, tcp", "no: Lockstep has no such backends; mpirun starts worlds that meet over gloo"},
      {"libc", "epoll_wait and getnameinfo are this program's own: docs/simulation.md"},
      {"gpus", about_gpus(machine.gpus)},
      {"cores", std::to_string(machine.cores) + ", so " + std::to_string(default_slots()) +
                    " rank slots; LibTorch takes " + std::to_string(torch.intra_op_threads) +
                    " threads unasked"},
      {"memory",
       gibibytes(machine.memory_bytes) + ", " + gibibytes(machine.memory_free_bytes) + " free"},
      {"limits", limit_text(machine.files_most) + " open files, " +
                     limit_text(machine.processes_most) + " processes"},
      {"shared memory", gibibytes(machine.shared_memory_free_bytes) + " free in /dev/shm"},
      {"temporary",
       machine.temporary.string() + ", " + gibibytes(machine.temporary_free_bytes) + " free"},
      {"disk here", gibibytes(machine.here_free_bytes) + " free"},
      {"system", machine.system},
      {"processor", machine.processor}};
}

std::vector<std::string> worries(const Machine& machine, const AboutTorch& torch) {
  std::vector<std::string> out;
  if (!torch.gloo) out.push_back("LibTorch has no Gloo: no world of more than one rank can meet");
  if (machine.files_most && *machine.files_most < kFilesWanted)
    out.push_back("few open files are allowed: raise 'ulimit -n' to " + with_commas(kFilesWanted));
  if (machine.processes_most && *machine.processes_most < kProcessesWanted)
    out.push_back("few processes are allowed: raise 'ulimit -u' to " +
                  with_commas(kProcessesWanted));
  if (machine.memory_free_bytes < kMemoryWanted)
    out.push_back("little memory is free: lower the rank slots with -j");
  if (machine.temporary_free_bytes < kDiskWanted)
    out.push_back("little space is free in " + machine.temporary.string() + ": set TMPDIR");
  if (machine.here_free_bytes < kDiskWanted)
    out.push_back("little space is free here: choose another folder with --out");
  return out;
}

int doctor(const Known& known) {
  cuda::load_nccl();  // before any call of LibTorch
  const auto torch = about_torch();
  const auto machine = this_machine();
  const auto bad = worries(machine, torch);
  for (const auto& worry : bad) print("problem: " + worry + "\n");
  if (bad.empty()) print("nothing found that would stop a run\n");
  print("\npaste this into a report:\n\n");
  for (const auto& [name, value] : found(machine, torch, known.subjects))
    print("    " + name + std::string(15 - name.size(), ' ') + value + "\n");
  return bad.empty() ? kHeld : kUsage;
}

}  // namespace

void add_doctor(CLI::App& app, const Known& known, int& status) {
  auto* command = app.add_subcommand(
      "doctor", "what was found here: LibTorch, Gloo, NCCL, cores, memory, limits, GPUs, disk");
  command->callback([&known, &status] { status = doctor(known); });
}

}  // namespace lockstep::cli
