#include "ddp/rendezvous/launcher.h"

#include "ddp/errors.h"
#include "ddp/rendezvous/host_list.h"

#include <charconv>
#include <limits>
#include <numeric>
#include <vector>

namespace lockstep {

namespace {

constexpr int kHighest = std::numeric_limits<int>::max();
constexpr int kLowestDerivedPort = 15000;  // below the ports that kernels give to clients
constexpr std::uint32_t kDerivedPorts = 10000;
const std::string kAddress = "MASTER_ADDR";
const std::string kPort = "MASTER_PORT";

// The names of a launcher's variables.
struct Family {
  Launcher launcher;
  std::string rank, world_size, local_rank, local_world_size;
};

const Family kTorchrun{Launcher::kTorchrun, "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"};
const Family kOpenMpi{Launcher::kOpenMpi, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                      "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"};
const Family kHydra{Launcher::kHydra, "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"};

bool any_is_named(const EnvironmentLookup& lookup, const std::vector<std::string>& names) {
  for (const std::string& name : names)
    if (lookup(name)) return true;
  return false;
}

std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t index = 0; index < names.size(); ++index) {
    if (index > 0) text += index + 1 == names.size() ? " and " : ", ";
    text += names[index];
  }
  return text;
}

void require(const EnvironmentLookup& lookup, Launcher launcher,
             const std::vector<std::string>& names) {
  std::vector<std::string> missing;
  for (const std::string& name : names)
    if (!value_in(lookup, name))
      missing.push_back(name + (lookup(name) ? " (which is empty)" : ""));
  if (missing.empty()) return;
  throw UsageError("the environment looks like that of " + name_of(launcher) + ", but lacks " +
                   listed(missing) + ": a process that stands alone has none of these variables, " +
                   "one that a launcher starts has all");
}

Launch launch_of(const EnvironmentLookup& lookup, const Family& family) {
  const auto number = [&](const std::string& name, int lowest, int highest) -> std::optional<int> {
    const auto value = value_in(lookup, name);
    if (!value) return std::nullopt;
    return whole_number(name, *value, lowest, highest);
  };
  Launch launch{.launcher = family.launcher};
  launch.position.world_size = number(family.world_size, 1, kHighest).value();
  launch.position.rank = number(family.rank, 0, launch.position.world_size - 1).value();
  if (!family.local_world_size.empty())
    launch.local_world_size = number(family.local_world_size, 1, launch.position.world_size);
  const int local_ranks = launch.local_world_size.value_or(launch.position.world_size);
  launch.local_rank = number(family.local_rank, 0, local_ranks - 1);
  return launch;
}

// True if srun started this step. The shell of an allocation and other extras have numbers from
// 4294967290 on, and are single processes like a batch script.
bool is_in_slurm_step(const EnvironmentLookup& lookup) {
  const auto step = value_in(lookup, "SLURM_STEP_ID");
  if (!step) return false;
  std::uint32_t number = 0;
  const char* const end = step->data() + step->size();
  const auto result = std::from_chars(step->data(), end, number);
  if (result.ec != std::errc() || result.ptr != end) {
    throw UsageError("the environment variable SLURM_STEP_ID is '" + *step +
                     "': expected a whole number");
  }
  return number < 4294967290U;
}

// srun --mpi=pmi2 sets hydra's variables too. hydra itself under srun has other numbers, or places
// its ranks as the step does.
bool says_the_same_as_slurm(const EnvironmentLookup& lookup) {
  return is_in_slurm_step(lookup) && value_in(lookup, "PMI_RANK") &&
         value_in(lookup, "PMI_RANK") == value_in(lookup, "SLURM_PROCID") &&
         value_in(lookup, "PMI_SIZE") == value_in(lookup, "SLURM_NTASKS");
}

// The number of the step's tasks on this host. Nothing if the numbers are not those of the step.
std::optional<int> slurm_tasks_here(const EnvironmentLookup& lookup, int world_size) {
  const auto text = value_in(lookup, "SLURM_TASKS_PER_NODE");
  if (!text) return std::nullopt;
  const std::vector<int> tasks = tasks_of_hosts(*text);
  if (std::accumulate(tasks.begin(), tasks.end(), std::int64_t{0}) != world_size)
    return std::nullopt;
  if (tasks.size() == 1) return tasks.front();
  const auto node = value_in(lookup, "SLURM_NODEID");
  if (!node) return std::nullopt;
  const int last = static_cast<int>(tasks.size()) - 1;
  return tasks[static_cast<std::size_t>(whole_number("SLURM_NODEID", *node, 0, last))];
}

Launch slurm_launch(const EnvironmentLookup& lookup) {
  require(lookup, Launcher::kSlurm, {"SLURM_PROCID", "SLURM_NTASKS"});
  Launch launch =
      launch_of(lookup, {Launcher::kSlurm, "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", ""});
  launch.local_world_size = slurm_tasks_here(lookup, launch.position.world_size);
  return launch;
}

// FNV-1a: the same on all ranks, however each was compiled.
int port_of(const std::string& job) {
  std::uint32_t hash = 2166136261U;
  for (const char letter : job) hash = (hash ^ static_cast<unsigned char>(letter)) * 16777619U;
  return kLowestDerivedPort + static_cast<int>(hash % kDerivedPorts);
}

std::string name_of_job(const EnvironmentLookup& lookup, Launcher launcher) {
  if (launcher == Launcher::kOpenMpi) {
    return value_in(lookup, "PMIX_NAMESPACE")
        .value_or(value_in(lookup, "OMPI_MCA_ess_base_jobid").value_or(""));
  }
  const auto job = value_in(lookup, "SLURM_JOB_ID");
  if (launcher != Launcher::kSlurm || !job) return "";
  return *job + "." + value_in(lookup, "SLURM_STEP_ID").value_or("");
}

std::optional<std::string> derived_address(const EnvironmentLookup& lookup, const Launch& launch) {
  if (launch.launcher == Launcher::kSlurm) {
    if (const auto nodes = value_in(lookup, "SLURM_STEP_NODELIST")) return hosts_of(*nodes).front();
  } else if (launch.launcher != Launcher::kTorchrun &&
             launch.local_world_size == launch.position.world_size) {
    return "127.0.0.1";
  }
  return std::nullopt;
}

std::optional<int> derived_port(const EnvironmentLookup& lookup, const Launch& launch,
                                const std::string& job) {
  if (launch.launcher == Launcher::kOpenMpi && !job.empty()) return port_of(job);
  const auto slurm_job = value_in(lookup, "SLURM_JOB_ID");
  if (launch.launcher != Launcher::kSlurm || !slurm_job) return std::nullopt;
  const std::string digits =
      slurm_job->substr(slurm_job->size() - std::min<std::size_t>(slurm_job->size(), 4));
  return kLowestDerivedPort + whole_number("SLURM_JOB_ID", digits, 0, 9999);
}

}  // namespace

std::string name_of(Launcher launcher) {
  switch (launcher) {
    case Launcher::kTorchrun:
      return "torchrun (RANK and WORLD_SIZE, set by it or by hand)";
    case Launcher::kOpenMpi:
      return "Open MPI (mpirun)";
    case Launcher::kHydra:
      return "hydra (mpiexec of MPICH or Intel MPI)";
    case Launcher::kSlurm:
      return "a Slurm step (srun)";
    case Launcher::kNone:
      break;
  }
  return "no launcher";
}

Launch launch_from_environment(const EnvironmentLookup& lookup) {
  const std::vector<std::string> whole = {"RANK", "WORLD_SIZE", kAddress, kPort};
  if (any_is_named(lookup, {"RANK", "WORLD_SIZE"})) {
    require(lookup, Launcher::kTorchrun, whole);
    return launch_of(lookup, kTorchrun);
  }
  for (const Family& family : {kOpenMpi, kHydra}) {
    if (!any_is_named(
            lookup, {family.rank, family.world_size, family.local_rank, family.local_world_size})) {
      continue;
    }
    if (family.launcher == Launcher::kHydra && says_the_same_as_slurm(lookup)) break;
    require(lookup, family.launcher, {family.rank, family.world_size});
    return launch_of(lookup, family);
  }
  if (is_in_slurm_step(lookup)) return slurm_launch(lookup);
  if (lookup("PMIX_RANK")) {
    throw UsageError("a PMIx launcher started this process (PMIX_RANK is set), but PMIx gives no " +
                     std::string("world size: set RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT"));
  }
  if (any_is_named(lookup, {kAddress, kPort, kTorchrun.local_rank, kTorchrun.local_world_size,
                            "TORCHELASTIC_USE_AGENT_STORE", "TORCHELASTIC_RESTART_COUNT"})) {
    require(lookup, Launcher::kTorchrun, whole);
  }
  return {};
}

RendezvousAddress rendezvous_address_from_environment(const EnvironmentLookup& lookup,
                                                      const Launch& launch) {
  RendezvousAddress point{.job = name_of_job(lookup, launch.launcher)};
  auto address = value_in(lookup, kAddress);
  if (!address) address = derived_address(lookup, launch);
  const auto port_text = value_in(lookup, kPort);
  const auto port = port_text ? whole_number(kPort, *port_text, 1, 65535)
                              : derived_port(lookup, launch, point.job);
  if (!address || !port) {
    std::vector<std::string> missing;
    if (!address) missing.push_back(kAddress + " (the host of rank 0)");
    if (!port) missing.push_back(kPort + " (a free port of that host)");
    throw UsageError(name_of(launch.launcher) + " does not say where its " +
                     std::to_string(launch.position.world_size) +
                     " ranks meet: set the environment " +
                     (missing.size() > 1 ? "variables " : "variable ") + listed(missing) +
                     ", the same on every rank");
  }
  point.address = *address;
  point.port = static_cast<std::uint16_t>(*port);
  if (launch.launcher != Launcher::kTorchrun) return point;
  point.agent_runs_store = lookup("TORCHELASTIC_USE_AGENT_STORE") == "True";
  if (const auto attempt = value_in(lookup, "TORCHELASTIC_RESTART_COUNT")) {
    const int count = whole_number("TORCHELASTIC_RESTART_COUNT", *attempt, 0, kHighest);
    // Each agent counts its own restarts (https://github.com/pytorch/pytorch/issues/135712), so the
    // number is used only where it is needed: a store of rank 0 is new in each attempt.
    if (point.agent_runs_store) point.attempt = count;
  }
  return point;
}

}  // namespace lockstep
