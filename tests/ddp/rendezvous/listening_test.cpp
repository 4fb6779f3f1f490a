#include "ddp/rendezvous/listening.h"

#include "ddp/errors.h"
#include "ddp/rendezvous/addresses.h"

#include <gtest/gtest.h>

#include <sys/socket.h>

namespace lockstep {
namespace {

Launch launch(int world_size, std::optional<int> local_world_size) {
  return {.launcher = Launcher::kTorchrun,
          .position = {.rank = 0, .world_size = world_size},
          .local_world_size = local_world_size};
}

std::string no_route(const std::string&) {
  ADD_FAILURE() << "no way had to be asked for";
  return "";
}

TEST(Listening, AWorldOnOneHostListensOnLoopback) {
  EXPECT_EQ(listening_address(launch(4, 4), {.address = "node1"}, no_route), "127.0.0.1");
  EXPECT_EQ(listening_address(launch(1, std::nullopt), {.address = "localhost"}, no_route),
            "127.0.0.1");
  for (const std::string address : {"127.0.0.1", "localhost", "::1", "127.9.9.9"}) {
    EXPECT_EQ(listening_address(launch(4, 2), {.address = address}, no_route), "127.0.0.1");
    EXPECT_EQ(listening_address(launch(4, std::nullopt), {.address = address}, no_route),
              "127.0.0.1");
  }
}

TEST(Listening, OtherwiseWhereTheWayToTheRendezvousAddressStarts) {
  const auto route = [](const std::string& host) { return "192.0.2." + host; };
  EXPECT_EQ(listening_address(launch(4, 2), {.address = "7"}, route), "192.0.2.7");
  EXPECT_EQ(listening_address(launch(4, std::nullopt), {.address = "7"}, route), "192.0.2.7");
}

// As where /etc/hosts has the host's own name as 127.0.1.1.
TEST(Listening, NeverOnLoopbackWhereOtherHostsHaveRanks) {
  const auto route = [](const std::string&) { return std::string("127.0.0.1"); };
  EXPECT_EQ(listening_address(launch(4, std::nullopt), {.address = "me"}, route), "127.0.0.1");
  try {
    listening_address(launch(4, 2), {.address = "me"}, route);
    ADD_FAILURE() << "it listens where nobody comes";
  } catch (const UsageError& error) {
    const std::string sentence = error.what();
    for (const char* part : {"4 ranks has 2 on this host", "rendezvous address me is 127.0.0.1",
                             "interface_name", "GLOO_SOCKET_IFNAME", "hostname"})
      EXPECT_NE(sentence.find(part), std::string::npos) << sentence;
  }
}

TEST(Listening, TheWayToThisHostStartsAtItself) {
  EXPECT_EQ(address_towards("127.0.0.1"), "127.0.0.1");
}

TEST(Listening, TheWayToLocalhostStartsAtLoopback) {
  if (!addresses_of_host("localhost", 9, SOCK_DGRAM).problem.empty())
    GTEST_SKIP() << "this host does not know localhost: it lacks its line in /etc/hosts";
  EXPECT_TRUE(is_loopback(address_towards("localhost")));
}

TEST(Listening, AHostThatIsNotThereIsNamed) {
  try {
    address_towards("no-such-host.invalid");
    ADD_FAILURE();
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find("'no-such-host.invalid', which this host does not"),
              std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace lockstep
