#include "tests/ddp/rendezvous/variables.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

// Every environment, half-set and mixed ones too, is read as the table of
// ddp/rendezvous/launcher.h says, and what is missing is named in full. Checked against an oracle
// of its own, which knows only which variables are set, for every subset of each family's variables
// (absent, empty or set) and of each pair of families. Not covered: values that vary over the ranks
// of a world; the launchers themselves are run in tests/launcher.

namespace lockstep {
namespace {

using testing::joined;
using testing::kHydra;
using testing::kOpenMpi;
using testing::kSlurm;
using testing::kTorch;
using testing::read;
using testing::Variables;
using Names = std::set<std::string>;

std::vector<Variables> families() {
  return {kTorch, kOpenMpi, kHydra, kSlurm};
}

class Oracle {
 public:
  explicit Oracle(const Variables& variables) {
    for (const auto& [name, value] : variables) {
      named_.insert(name);
      if (!value.empty()) set_.insert(name);
    }
  }

  // "torchrun 1 of 4, here 0 of 2, at 10.0.0.1:29500", "alone", or "lacks" and the names.
  std::string says() const {
    if (any({"RANK", "WORLD_SIZE"})) return torchrun();
    if (any({"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
             "OMPI_COMM_WORLD_LOCAL_SIZE"})) {
      return mpi("openmpi 4 of 5", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                 "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE", "4", "5",
                 has("PMIX_NAMESPACE") ? kPortOfNamespace : "");
    }
    if (any({"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"})) {
      return mpi("hydra 3 of 6", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", "1",
                 "6", "");
    }
    if (has("SLURM_STEP_ID")) return slurm();
    if (any({"PMIX_RANK"})) return "pmix";
    if (any({"MASTER_ADDR", "MASTER_PORT", "LOCAL_RANK", "LOCAL_WORLD_SIZE",
             "TORCHELASTIC_USE_AGENT_STORE", "TORCHELASTIC_RESTART_COUNT"})) {
      return torchrun();
    }
    return "alone";
  }

 private:
  // FNV-1a of "582418433" modulo 10000, above 15000; computed elsewhere.
  static constexpr const char* kPortOfNamespace = "18247";

  bool has(const std::string& name) const { return set_.count(name) == 1; }
  bool any(const Names& names) const {
    for (const auto& name : names)
      if (named_.count(name) == 1) return true;
    return false;
  }
  std::string lacks(const Names& names) const {
    Names missing;
    for (const auto& name : names)
      if (!has(name)) missing.insert(name);
    return missing.empty() ? "" : "lacks" + joined(missing);
  }
  std::string here(const std::string& rank, const std::string& local_rank, const std::string& size,
                   const std::string& local_size) const {
    return ", here " + (has(rank) ? local_rank : "?") + " of " + (has(size) ? local_size : "?");
  }
  std::string at(std::string address, std::string port) const {
    if (has("MASTER_ADDR")) address = "10.0.0.1";
    if (has("MASTER_PORT")) port = "29500";
    Names missing;
    if (address.empty()) missing.insert("MASTER_ADDR");
    if (port.empty()) missing.insert("MASTER_PORT");
    return missing.empty() ? ", at " + address + ":" + port : ", to set" + joined(missing);
  }

  std::string torchrun() const {
    const std::string missing = lacks({"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"});
    if (!missing.empty()) return missing;
    return "torchrun 1 of 4" + here("LOCAL_RANK", "0", "LOCAL_WORLD_SIZE", "2") + at("", "") +
           (has("TORCHELASTIC_USE_AGENT_STORE") ? " of the agent" : "") +
           (has("TORCHELASTIC_USE_AGENT_STORE") && has("TORCHELASTIC_RESTART_COUNT") ? " again"
                                                                                     : "");
  }
  std::string mpi(const std::string& name, const std::string& rank, const std::string& size,
                  const std::string& local_rank, const std::string& local_size,
                  const std::string& local_rank_value, const std::string& local_size_value,
                  const std::string& port) const {
    const std::string missing = lacks({rank, size});
    if (!missing.empty()) return missing;
    return name + here(local_rank, local_rank_value, local_size, local_size_value) +
           at(has(local_size) ? "127.0.0.1" : "", port);
  }
  std::string slurm() const {
    const std::string missing = lacks({"SLURM_PROCID", "SLURM_NTASKS"});
    if (!missing.empty()) return missing;
    return "slurm 5 of 7, here " + std::string(has("SLURM_LOCALID") ? "1" : "?") + " of " +
           (has("SLURM_TASKS_PER_NODE") && has("SLURM_NODEID") ? "3" : "?") +
           at(has("SLURM_STEP_NODELIST") ? "node03" : "", has("SLURM_JOB_ID") ? "19567" : "");
  }

  Names named_, set_;
};

// Every choice of `states` (2: absent or set; 3: or empty) for every variable.
int run_subsets(const Variables& variables, int states) {
  const std::vector<std::pair<std::string, std::string>> all(variables.begin(), variables.end());
  std::vector<int> choice(all.size(), 0);
  int count = 0;
  for (;;) {
    Variables chosen;
    for (std::size_t i = 0; i < all.size(); ++i)
      if (choice[i] > 0) chosen[all[i].first] = choice[i] == 1 ? all[i].second : "";
    ++count;
    const std::string expected = Oracle(chosen).says(), found = read(chosen);
    if (found != expected) {
      std::string text;
      for (const auto& [name, value] : chosen) text += name + "=" + value + " ";
      ADD_FAILURE() << text << "\n  found    " << found << "\n  expected " << expected;
      return count;
    }
    std::size_t place = 0;
    while (place < all.size() && ++choice[place] == states) choice[place++] = 0;
    if (place == all.size()) return count;
  }
}

TEST(LauncherOracle, EverySubsetOfOneFamily) {
  int count = 0;
  for (const Variables& family : families()) count += run_subsets(family, 3);
  EXPECT_EQ(count, 6561 + 729 + 81 + 6561);
}

TEST(LauncherOracle, EverySubsetOfTwoFamilies) {
  int count = 0;
  const std::vector<Variables> all = families();
  for (std::size_t first = 0; first < all.size(); ++first) {
    for (std::size_t second = first + 1; second < all.size(); ++second) {
      Variables both = all[first];
      both.insert(all[second].begin(), all[second].end());
      count += run_subsets(both, 2);
    }
  }
  EXPECT_EQ(count, 16384 + 4096 + 65536 + 1024 + 16384 + 4096);
}

}  // namespace
}  // namespace lockstep
