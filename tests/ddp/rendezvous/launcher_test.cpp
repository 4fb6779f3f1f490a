#include "ddp/rendezvous/launcher.h"

#include "ddp/errors.h"
#include "tests/ddp/rendezvous/variables.h"

#include <gtest/gtest.h>

#include <tuple>
#include <vector>

namespace lockstep {
namespace {

using testing::kHydra;
using testing::kOpenMpi;
using testing::kSlurm;
using testing::kTorch;
using testing::lookup_in;
using testing::read;
using testing::Variables;

TEST(Launcher, NothingAtAllIsAWorldOfOne) {
  const Launch launch = launch_from_environment(lookup_in({{"PATH", "/bin"}, {"HOME", "/"}}));
  EXPECT_EQ(launch.launcher, Launcher::kNone);
  EXPECT_EQ(launch.position.rank, 0);
  EXPECT_EQ(launch.position.world_size, 1);
}

TEST(Launcher, TorchrunOnOneMachine) {
  EXPECT_EQ(read({{"GROUP_RANK", "0"},
                  {"GROUP_WORLD_SIZE", "1"},
                  {"LOCAL_RANK", "1"},
                  {"LOCAL_WORLD_SIZE", "2"},
                  {"MASTER_ADDR", "127.0.0.1"},
                  {"MASTER_PORT", "29500"},
                  {"RANK", "1"},
                  {"ROLE_RANK", "1"},
                  {"ROLE_WORLD_SIZE", "2"},
                  {"TORCHELASTIC_RESTART_COUNT", "0"},
                  {"TORCHELASTIC_RUN_ID", "none"},
                  {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                  {"WORLD_SIZE", "2"}}),
            "torchrun 1 of 2, here 1 of 2, at 127.0.0.1:29500 of the agent");
}

TEST(Launcher, KubeflowGivesNoLocalRank) {
  EXPECT_EQ(read({{"MASTER_ADDR", "job-master-0"},
                  {"MASTER_PORT", "23456"},
                  {"RANK", "2"},
                  {"WORLD_SIZE", "3"}}),
            "torchrun 2 of 3, here ? of ?, at job-master-0:23456");
}

TEST(Launcher, OpenMpiOverTwoHostsNeedsARendezvousAddress) {
  Variables variables = {{"OMPI_COMM_WORLD_RANK", "2"},       {"OMPI_COMM_WORLD_SIZE", "4"},
                         {"OMPI_COMM_WORLD_LOCAL_RANK", "0"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                         {"PMIX_NAMESPACE", "prterun-a-7@1"}, {"PMIX_RANK", "2"}};
  EXPECT_EQ(read(variables), "openmpi 2 of 4, here 0 of 2, to set MASTER_ADDR");
  variables["MASTER_ADDR"] = "node1";
  EXPECT_EQ(read(variables).find("openmpi 2 of 4, here 0 of 2, at node1:"), 0u);
  variables["MASTER_PORT"] = "4000";
  EXPECT_EQ(read(variables), "openmpi 2 of 4, here 0 of 2, at node1:4000");
}

TEST(Launcher, TwoJobsOfOpenMpiOnOneHostHaveDifferentPorts) {
  const auto port = [](const std::string& job) {
    Variables variables = kOpenMpi;
    variables["PMIX_NAMESPACE"] = job;
    return rendezvous_address_from_environment(lookup_in(variables),
                                               launch_from_environment(lookup_in(variables)))
        .port;
  };
  EXPECT_NE(port("582418433"), port("581763073"));
  EXPECT_EQ(port("582418433"), port("582418433"));
  EXPECT_GE(port("582418433"), 15000);
  EXPECT_LT(port("582418433"), 25000);
}

TEST(Launcher, HydraOnOneHostNeedsThePort) {
  Variables variables = kHydra;
  EXPECT_EQ(read(variables), "hydra 3 of 6, here 1 of 6, to set MASTER_PORT");
  variables["MASTER_PORT"] = "4000";
  EXPECT_EQ(read(variables), "hydra 3 of 6, here 1 of 6, at 127.0.0.1:4000");
}

TEST(Launcher, SrunHasItsRendezvousOnTheFirstNodeOfItsStep) {
  EXPECT_EQ(read(kSlurm), "slurm 5 of 7, here 1 of 3, at node03:19567");
  Variables variables = kSlurm;
  variables["SLURM_STEP_NODELIST"] = "a1,a2";
  variables["SLURM_JOB_ID"] = "42";
  variables["SLURM_TASKS_PER_NODE"] = "7";
  EXPECT_EQ(read(variables), "slurm 5 of 7, here 1 of 7, at a1:15042");
  variables["SLURM_TASKS_PER_NODE"] = "9(x2)";  // not of this step
  EXPECT_EQ(read(variables), "slurm 5 of 7, here 1 of ?, at a1:15042");
}

TEST(Launcher, SrunWithPmi2IsSrun) {
  Variables variables = kSlurm;
  variables["PMI_RANK"] = "5";
  variables["PMI_SIZE"] = "7";
  EXPECT_EQ(read(variables), "slurm 5 of 7, here 1 of 3, at node03:19567");
  variables["SLURM_PROCID"] = "0";  // hydra's own helpers are a step of one task a host
  EXPECT_EQ(read(variables), "hydra 5 of 7, here ? of ?, to set MASTER_ADDR MASTER_PORT");
}

TEST(Launcher, ABatchScriptAndTheShellOfAnAllocationStandAlone) {
  Variables variables = kSlurm;
  variables.erase("SLURM_STEP_ID");
  EXPECT_EQ(read(variables), "alone");
  variables["SLURM_STEP_ID"] = "4294967290";
  EXPECT_EQ(read(variables), "alone");
  variables["SLURM_STEP_ID"] = "4294967289";
  EXPECT_EQ(read(variables).find("slurm 5 of 7"), 0u);
}

TEST(Launcher, MpirunInASlurmJobIsMpirun) {
  Variables variables = kSlurm;
  variables.insert(kOpenMpi.begin(), kOpenMpi.end());
  EXPECT_EQ(read(variables).find("openmpi 4 of 5, here 4 of 5, at 127.0.0.1:"), 0u);
}

// PyTorch's variables, set by hand in a wrapper, come first, and have to be whole then.
TEST(Launcher, RankWithoutWorldSizeUnderMpirunIsHalfSet) {
  Variables variables = kOpenMpi;
  variables["RANK"] = "4";
  EXPECT_EQ(read(variables), "lacks MASTER_ADDR MASTER_PORT WORLD_SIZE");
}

TEST(Launcher, AHalfSetEnvironmentSaysWhoseItLooksLike) {
  const auto sentence = [](const Variables& variables) -> std::string {
    try {
      launch_from_environment(lookup_in(variables));
      return "";
    } catch (const UsageError& error) {
      return error.what();
    }
  };
  EXPECT_NE(sentence({{"RANK", "0"}}).find("looks like that of torchrun"), std::string::npos);
  EXPECT_NE(sentence({{"OMPI_COMM_WORLD_SIZE", "2"}}).find("of Open MPI (mpirun)"),
            std::string::npos);
  EXPECT_NE(sentence({{"PMI_RANK", "0"}}).find("hydra (mpiexec of MPICH or Intel MPI)"),
            std::string::npos);
  EXPECT_NE(sentence({{"SLURM_STEP_ID", "0"}}).find("a Slurm step (srun)"), std::string::npos);
  EXPECT_NE(sentence({{"RANK", "0"}, {"WORLD_SIZE", ""}}).find("WORLD_SIZE (which is empty)"),
            std::string::npos);
}

TEST(Launcher, ANumberThatIsNoneOrOutOfRangeIsNamedWithItsValue) {
  const std::vector<std::tuple<Variables, std::string, std::vector<std::string>>> bad = {
      {kTorch, "RANK", {"two", "-1", "4", "1 ", "1.0", "0x1", "99999999999"}},
      {kTorch, "WORLD_SIZE", {"0", "-2", "three", "1e3"}},
      {kTorch, "MASTER_PORT", {"0", "65536", "http", "-1"}},
      {kTorch, "LOCAL_RANK", {"2", "-1", "a"}},
      {kTorch, "LOCAL_WORLD_SIZE", {"0", "5", "a"}},
      {kTorch, "TORCHELASTIC_RESTART_COUNT", {"-1", "a"}},
      {kOpenMpi, "OMPI_COMM_WORLD_RANK", {"5", "x"}},
      {kOpenMpi, "OMPI_COMM_WORLD_LOCAL_SIZE", {"6", "0"}},
      {kHydra, "PMI_SIZE", {"3", "0", "x"}},
      {kHydra, "MPI_LOCALRANKID", {"6", "x"}},
      {kSlurm, "SLURM_STEP_ID", {"x", "-1", "99999999999"}},
      {kSlurm, "SLURM_PROCID", {"7", "x"}},
      {kSlurm, "SLURM_NODEID", {"2", "x"}},
      {kSlurm, "SLURM_TASKS_PER_NODE", {"4(x"}},
      {kSlurm, "SLURM_STEP_NODELIST", {"a[1"}},
      {kSlurm, "SLURM_JOB_ID", {"x"}}};
  for (const auto& row : bad) {
    for (const std::string& value : std::get<2>(row)) {
      Variables variables = std::get<0>(row);
      variables[std::get<1>(row)] = value;
      const auto lookup = lookup_in(variables);
      try {
        rendezvous_address_from_environment(lookup, launch_from_environment(lookup));
        ADD_FAILURE() << std::get<1>(row) << "=" << value << " was taken";
      } catch (const UsageError& error) {
        EXPECT_NE(std::string(error.what()).find("'" + value + "'"), std::string::npos)
            << error.what();
      }
    }
  }
}

}  // namespace
}  // namespace lockstep
