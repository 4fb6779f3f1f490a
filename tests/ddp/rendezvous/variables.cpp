#include "tests/ddp/rendezvous/variables.h"

#include "ddp/errors.h"
#include "ddp/rendezvous/launcher.h"

#include <vector>

namespace lockstep::testing {

const Variables kTorch = {{"RANK", "1"},
                          {"WORLD_SIZE", "4"},
                          {"MASTER_ADDR", "10.0.0.1"},
                          {"MASTER_PORT", "29500"},
                          {"LOCAL_RANK", "0"},
                          {"LOCAL_WORLD_SIZE", "2"},
                          {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                          {"TORCHELASTIC_RESTART_COUNT", "2"}};
const Variables kOpenMpi = {{"OMPI_COMM_WORLD_RANK", "4"},
                            {"OMPI_COMM_WORLD_SIZE", "5"},
                            {"OMPI_COMM_WORLD_LOCAL_RANK", "4"},
                            {"OMPI_COMM_WORLD_LOCAL_SIZE", "5"},
                            {"PMIX_RANK", "4"},
                            {"PMIX_NAMESPACE", "582418433"}};
const Variables kHydra = {
    {"PMI_RANK", "3"}, {"PMI_SIZE", "6"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "6"}};
const Variables kSlurm = {{"SLURM_STEP_ID", "0"},
                          {"SLURM_PROCID", "5"},
                          {"SLURM_NTASKS", "7"},
                          {"SLURM_LOCALID", "1"},
                          {"SLURM_TASKS_PER_NODE", "4,3"},
                          {"SLURM_NODEID", "1"},
                          {"SLURM_STEP_NODELIST", "node[03-04]"},
                          {"SLURM_JOB_ID", "1234567"}};

EnvironmentLookup lookup_in(const Variables& variables) {
  return [variables](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  };
}

std::string joined(const std::set<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += " " + name;
  return text;
}

namespace {

// The variables that a sentence asks for, of those that the oracle may name.
std::set<std::string> named_in(const std::string& sentence) {
  std::set<std::string> names;
  for (const char* const name :
       {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMI_SIZE", "SLURM_PROCID",
        "SLURM_NTASKS", "MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK"}) {
    const std::string word = std::string(" ") + name;
    for (auto place = sentence.find(word); place != std::string::npos;
         place = sentence.find(word, place + 1)) {
      const char next = (sentence + " ")[place + word.size()];
      if (next == ' ' || next == ',' || next == ':') names.insert(name);
    }
  }
  return names;
}

std::string text_of(const std::optional<int>& number) {
  return number ? std::to_string(*number) : "?";
}

}  // namespace

std::string read(const Variables& variables) {
  const auto lookup = lookup_in(variables);
  Launch launch;
  try {
    launch = launch_from_environment(lookup);
  } catch (const UsageError& error) {
    const std::string sentence = error.what();
    if (sentence.find("PMIx gives no world size") != std::string::npos) return "pmix";
    const auto start = sentence.find("but lacks");
    return start == std::string::npos ? sentence
                                      : "lacks" + joined(named_in(sentence.substr(start)));
  }
  if (launch.launcher == Launcher::kNone) return "alone";
  const std::vector<std::string> names = {"torchrun", "openmpi", "hydra", "slurm"};
  const std::string start = names[static_cast<std::size_t>(launch.launcher)] + " " +
                            std::to_string(launch.position.rank) + " of " +
                            std::to_string(launch.position.world_size) + ", here " +
                            text_of(launch.local_rank) + " of " + text_of(launch.local_world_size);
  try {
    const RendezvousAddress point = rendezvous_address_from_environment(lookup, launch);
    return start + ", at " + point.address + ":" + std::to_string(point.port) +
           (point.agent_runs_store ? " of the agent" : "") + (point.attempt == 2 ? " again" : "");
  } catch (const UsageError& error) {
    const std::string sentence = error.what();
    return start + ", to set" + joined(named_in(sentence.substr(sentence.find("ranks meet"))));
  }
}

}  // namespace lockstep::testing
