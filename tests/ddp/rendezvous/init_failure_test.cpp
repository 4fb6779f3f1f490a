#include "ddp/distributed_data_parallel.h"
#include "ddp/errors.h"
#include "ddp/init.h"
#include "tests/ddp/forked_world.h"
#include "tests/ddp/rendezvous/rendezvous_addresses.h"

#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/torch.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <unistd.h>

namespace lockstep {
namespace {

using testing::free_port;
using testing::stand;
using namespace std::chrono_literals;

void expect_parts(const std::string& report, const std::vector<std::string>& parts) {
  for (const auto& part : parts)
    EXPECT_NE(report.find(part), std::string::npos) << report << "\nlacks: " << part;
}

// Each of these ends in a report because the rank ended; run_world's own deadline is a minute.
TEST(InitFailure, AnAddressWhereNobodyListensIsNamed) {
  const auto reports = testing::run_world(1, [](const testing::Group&) -> std::string {
    const int port = free_port();
    stand(1, 2, "127.0.0.1", port);
    try {
      init_process_group({.timeout = 1s});
      return "met";
    } catch (const CommunicationError& error) {
      const std::string sentence = error.what();
      return sentence.find("at 127.0.0.1:" + std::to_string(port)) == std::string::npos
                 ? "no port: " + sentence
                 : sentence;
    }
  });
  expect_parts(reports[0], {"rank 1: the rendezvous of 2 ranks at 127.0.0.1:"});
  EXPECT_EQ(reports[0].find("no port"), std::string::npos) << reports[0];
}

// An address for documentation: nobody has it.
TEST(InitFailure, AnAddressOfAnotherHostIsNoPlaceForRankZerosStore) {
  const auto reports = testing::run_world(1, [](const testing::Group&) -> std::string {
    stand(0, 2, "192.0.2.7", free_port());
    init_process_group({.timeout = 1500ms});
    return "met";
  });
  expect_parts(reports[0],
               {"rank 0: the rendezvous of 2 ranks at 192.0.2.7:",
                "rank 0 cannot open the store there (", "): 192.0.2.7 is no address of this host"});
}

TEST(InitFailure, AHostThatDoesNotExistIsNamed) {
  const auto reports = testing::run_world(1, [](const testing::Group&) -> std::string {
    stand(1, 2, "no-such-host.invalid", 29500);
    init_process_group({.timeout = 1s});
    return "met";
  });
  expect_parts(reports[0],
               {"UsageError: ", "'no-such-host.invalid', which this host does not know"});
}

// Rank 0 cannot open its store; what holds the port answers nobody.
TEST(InitFailure, APortInUseEndsEveryRank) {
  const int port = testing::silent_port();
  const auto reports = testing::run_world(2, [port](const testing::Group& group) -> std::string {
    const int rank = group->getRank();
    stand(rank, 2, "127.0.0.1", port);
    init_process_group({.timeout = 1s});
    return "met";
  });
  expect_parts(reports[0], {"CommunicationError: rank 0: the rendezvous of 2 ranks at 127.0.0.1:",
                            "rank 0 cannot open the store there: the port is in use"});
  expect_parts(
      reports[1],
      {"CommunicationError: rank 1: the rendezvous of 2 ranks at 127.0.0.1:",
       "what accepts connections there does not answer as a store: it is another program"});
}

// The second one finds the port taken, and joins the store that has it.
TEST(InitFailure, TwoRanksZeroAreReportedToBoth) {
  const auto reports = testing::run_world(3, [](const testing::Group& group) -> std::string {
    const int port = testing::sent_to_all(group, group->getRank() == 0 ? free_port() : 0);
    stand(group->getRank() == 2 ? 1 : 0, 3, "127.0.0.1", port);
    init_process_group({.timeout = 20s});
    return "met";
  });
  for (const auto& report : reports) {
    EXPECT_EQ(report, reports[0]);
    expect_parts(report, {"DisagreementError: rank 0 has arrived here before: two processes have "
                          "this rank"});
  }
}

TEST(InitFailure, AnInterfaceThatIsNotThereIsReportedOnEveryRank) {
  const auto reports = testing::run_world(3, [](const testing::Group& group) -> std::string {
    const auto store = c10::make_intrusive<c10d::PrefixStore>("again", group->getStore());
    init_process_group({.store = store,
                        .rank = group->getRank(),
                        .world_size = 3,
                        .interface_name = group->getRank() == 1 ? "nope0" : "lo",
                        .timeout = 20s});
    return "met";
  });
  for (const auto& report : reports) {
    EXPECT_EQ(report, reports[0]);
    expect_parts(report, {"DisagreementError: rank 1 cannot take part: it cannot listen on the "
                          "interface nope0"});
  }
}

TEST(InitFailure, AnAddressOfAnotherHostIsReportedOnEveryRank) {
  const auto reports = testing::run_world(2, [](const testing::Group& group) -> std::string {
    const auto store = c10::make_intrusive<c10d::PrefixStore>("again", group->getStore());
    init_process_group({.store = store,
                        .rank = group->getRank(),
                        .world_size = 2,
                        .hostname = group->getRank() == 1 ? "203.0.113.7" : "127.0.0.1",
                        .timeout = 20s});
    return "met";
  });
  for (const auto& report : reports)
    expect_parts(report, {"rank 1 cannot take part", "203.0.113.7"});
}

// Rank 2 of the first world is no rank of the second one: it holds the store, and dies when both
// others are in it.
TEST(InitFailure, AStoreThatDiesEndsTheRendezvous) {
  const auto reports = testing::run_world(3, [](const testing::Group& group) -> std::string {
    const auto server = group->getRank() == 2 ? testing::serve_store() : nullptr;
    const int port = testing::sent_to_all(group, server ? server->getPort() : 0);
    if (server) {
      for (const char* const arrival : {"1", "2"}) {
        server->wait({std::string("lockstep/attempt_0/lockstep/arrival/text/") + arrival}, 20s);
      }
      ::_exit(5);
    }
    stand(group->getRank(), 3, "127.0.0.1", port);
    ::setenv("TORCHELASTIC_USE_AGENT_STORE", "True", 1);
    init_process_group({.timeout = 20s});
    return "met";
  });
  expect_parts(reports[0], {"CommunicationError: rank 0: the rendezvous of 3 ranks at 127.0.0.1:"});
  expect_parts(reports[1], {"CommunicationError: rank 1: the rendezvous of 3 ranks at 127.0.0.1:"});
}

TEST(InitFailure, OnesOwnStoreDoesNotWaitForEver) {
  const auto reports = testing::run_world(2, [](const testing::Group& group) -> std::string {
    const int port = testing::sent_to_all(group, group->getRank() == 0 ? free_port() : 0);
    stand(group->getRank(), 4, "127.0.0.1", port);
    init_process_group({.timeout = 2s});
    return "met";
  });
  for (const auto& report : reports)
    expect_parts(report, {"CommunicationError: rank ", "did not come: 2, 3 (these did: 0, 1)"});
}

// Whatever the program makes of the exception.
TEST(InitFailure, TheErrorOfAnInstanceOrARendezvousIsInTheLaunchersFile) {
  const auto reports = testing::run_world(
      2,
      [](const testing::Group& group) -> std::string {
        torch::nn::Linear net(2, 1);
        DistributedDataParallel ddp(net, {.process_group = group});
        if (group->getRank() == 1) ::_exit(5);
        std::string folder = (std::filesystem::temp_directory_path() / "lockstep-XXXXXX").string();
        if (::mkdtemp(folder.data()) == nullptr) return "no folder";
        std::string text;
        for (const std::string name : {"/instance", "/meeting"}) {
          ::setenv("TORCHELASTIC_ERROR_FILE", (folder + name).c_str(), 1);
          try {
            if (name == "/meeting") init_process_group({.threads = 0});
            ddp.forward(torch::ones({1, 2})).sum().backward();
          } catch (const std::exception& error) {
            std::string line;
            std::getline(std::ifstream(folder + name), line);
            text += line.find(first_line(error)) == std::string::npos ? "lacks " : "has ";
          }
        }
        std::filesystem::remove_all(folder);
        return text;
      },
      5s);
  EXPECT_EQ(reports[0], "has has ");
}

}  // namespace
}  // namespace lockstep
