#include "ddp/init.h"

#include "ddp/errors.h"
#include "tests/ddp/forked_world.h"
#include "tests/ddp/rendezvous/rendezvous_addresses.h"

#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/torch.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <unistd.h>

namespace lockstep {
namespace {

std::string refusal_of(const InitOptions& options) {
  try {
    init_process_group(options);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

void expect_refusal(const InitOptions& options, const std::string& part) {
  const std::string sentence = refusal_of(options);
  EXPECT_NE(sentence.find(part), std::string::npos) << "got '" << sentence << "', lacks: " << part;
}

TEST(Init, RefusesHalfAPlaceInTheWorld) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  expect_refusal({.rank = 0}, "rank is given without world_size");
  expect_refusal({.world_size = 1}, "world_size is given without rank");
  expect_refusal({.store = store}, "store is given without rank and world_size");
  expect_refusal({.store = store, .rank = 2, .world_size = 2}, "rank 2 of world_size 2");
  expect_refusal({.store = store, .rank = -1, .world_size = 2}, "rank -1");
  expect_refusal({.store = store, .rank = 0, .world_size = 0}, "world_size 0");
}

TEST(Init, RefusesOptionsThatCannotWork) {
  expect_refusal({.timeout = std::chrono::milliseconds(0)}, "timeout is 0 ms");
  expect_refusal({.threads = 0}, "threads is 0");
}

// PyTorch's, over Gloo.
TEST(Init, WaitsForHalfAnHourUnlessATimeoutIsGiven) {
  const auto timeout_of = [](std::optional<std::chrono::milliseconds> timeout) {
    const auto group = init_process_group({.store = c10::make_intrusive<c10d::HashStore>(),
                                           .rank = 0,
                                           .world_size = 1,
                                           .timeout = timeout});
    return group->getBackend(c10::kCPU)->getBackendOptions()->timeout;
  };
  const auto reports = testing::run_world(1, [&](const testing::Group&) {
    return std::to_string(timeout_of(std::nullopt).count()) + " " +
           std::to_string(timeout_of(std::chrono::seconds(7)).count());
  });
  EXPECT_EQ(reports, testing::same(1, "1800000 7000"));
}

TEST(Init, NeverTurnsAHalfSetEnvironmentIntoAWorldOfOne) {
  const auto reports = testing::run_world(1, [](const testing::Group&) {
    ::clearenv();
    ::setenv("RANK", "0", 1);
    std::string sentences = refusal_of({});
    ::setenv("WORLD_SIZE", "two", 1);
    sentences += "|" + refusal_of({});
    ::setenv("MASTER_ADDR", "127.0.0.1", 1);
    ::setenv("MASTER_PORT", "29500", 1);
    return sentences + "|" + refusal_of({});
  });
  EXPECT_NE(reports[0].find("lacks WORLD_SIZE, MASTER_ADDR and MASTER_PORT"), std::string::npos)
      << reports[0];
  EXPECT_NE(reports[0].find("|the environment looks like"), std::string::npos) << reports[0];
  EXPECT_NE(reports[0].find("WORLD_SIZE is 'two'"), std::string::npos) << reports[0];
}

std::string size_and_sum(const testing::Group& group) {
  std::vector<at::Tensor> sum = {at::full({1}, group->getRank() + 1.0)};
  group->allreduce(sum)->wait();
  return std::to_string(group->getSize()) + " ranks, sum " + testing::numbers(sum[0]) + ", here " +
         std::to_string(local_rank(*group));
}

TEST(Init, AProcessThatNothingLaunchedIsAWorldOfOne) {
  const auto reports = testing::run_world(1, [](const testing::Group&) {
    ::clearenv();
    return size_and_sum(init_process_group()) + "; " + size_and_sum(init_process_group());
  });
  EXPECT_EQ(reports[0], "1 ranks, sum 1, here 0; 1 ranks, sum 1, here 0");
}

// The port is the one the server was given by the kernel and still holds, as under torchrun, whose
// agent runs the store.
TEST(Init, HasItsRendezvousAtTheAddressOfTheEnvironment) {
  const auto reports = testing::run_world(3, [](const testing::Group& group) {
    const auto server = group->getRank() == 0 ? testing::serve_store() : nullptr;
    const int port = testing::sent_to_all(group, server ? server->getPort() : 0);
    testing::stand(group->getRank(), 3, "127.0.0.1", port);
    ::setenv("TORCHELASTIC_USE_AGENT_STORE", "True", 1);
    const auto second = init_process_group({.timeout = std::chrono::seconds(20)});
    std::vector<at::Tensor> sum = {at::full({1}, second->getRank() + 1.0)};
    second->allreduce(sum)->wait();
    std::vector<at::Tensor> done = {at::zeros({1})};
    group->allreduce(done)->wait();  // the server outlives its clients
    return testing::numbers(sum[0]) + " " + second->getBackendName();
  });
  EXPECT_EQ(reports, std::vector<std::string>(3, "6 gloo"));
}

bool blocks_broken_pipes(const std::filesystem::path& thread) {
  std::ifstream status(thread / "status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("SigBlk:", 0) == 0) {
      return (std::stoull(line.substr(7), nullptr, 16) >> (SIGPIPE - 1) & 1) != 0;
    }
  }
  return false;
}

// Otherwise a process is killed, silently, when it happens to write to a peer that has just died.
TEST(Init, TurnsBrokenPipesIntoErrorsOnGloosThreadsAndNowhereElse) {
  const auto reports = testing::run_world(2, [](const testing::Group&) {
    std::string report;
    for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
      const bool is_main = thread.path().filename() == std::to_string(::getpid());
      if (blocks_broken_pipes(thread.path()) == is_main) report += "wrong ";
    }
    return report + "done";
  });
  EXPECT_EQ(reports, std::vector<std::string>(2, "done"));
}

TEST(Init, PutsAProcessGroupInFrontOfAnyBackend) {
  const auto reports = testing::run_world(2, [](const testing::Group& group) {
    const auto front = make_process_group(group->getBackend(c10::DeviceType::CPU), nullptr);
    std::vector<at::Tensor> sum = {at::full({1}, front->getRank() + 1.0)};
    front->allreduce(sum)->wait();
    return testing::numbers(sum[0]) + " " + std::to_string(front->getSize()) + " " +
           front->getBackendName();
  });
  EXPECT_EQ(reports, std::vector<std::string>(2, "3 2 gloo"));
  EXPECT_THROW(make_process_group(nullptr, nullptr), UsageError);
}

// As under Kubeflow's PyTorchJob. All ranks of the test are on one host.
TEST(Init, WithoutALocalRankTheHostsNamesGiveIt) {
  const auto reports = [](int size) {
    return testing::run_world(size, [](const testing::Group& group) {
      ::clearenv();
      return std::to_string(local_rank(*group));
    });
  };
  EXPECT_EQ(reports(2), std::vector<std::string>({"0", "1"}));
  EXPECT_EQ(reports(3), std::vector<std::string>({"0", "1", "2"}));
}

TEST(Init, TheLaunchersLocalRankIsIt) {
  const auto reports = testing::run_world(2, [](const testing::Group& group) {
    ::clearenv();
    ::setenv("RANK", std::to_string(group->getRank()).c_str(), 1);
    for (const char* const name : {"WORLD_SIZE", "MASTER_PORT"}) ::setenv(name, "2", 1);
    ::setenv("MASTER_ADDR", "127.0.0.1", 1);
    ::setenv("LOCAL_RANK", "0", 1);
    return std::to_string(local_rank(*group));
  });
  EXPECT_EQ(reports, std::vector<std::string>(2, "0"));
}

}  // namespace
}  // namespace lockstep
