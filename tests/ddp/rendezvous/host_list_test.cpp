#include "ddp/rendezvous/host_list.h"

#include "ddp/errors.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

using Hosts = std::vector<std::string>;

TEST(HostList, IsWrittenOutInItsOrder) {
  EXPECT_EQ(hosts_of("a1"), Hosts({"a1"}));
  EXPECT_EQ(hosts_of("a1,a2"), Hosts({"a1", "a2"}));
  EXPECT_EQ(hosts_of("node[03-05,9]"), Hosts({"node03", "node04", "node05", "node9"}));
  EXPECT_EQ(hosts_of("b,node[7]-ib,a.example.org"), Hosts({"b", "node7-ib", "a.example.org"}));
  EXPECT_EQ(hosts_of("r[1-2]n[09-10]"), Hosts({"r1n09", "r1n10", "r2n09", "r2n10"}));
  EXPECT_EQ(hosts_of("gpu-node[98-101]"),
            Hosts({"gpu-node98", "gpu-node99", "gpu-node100", "gpu-node101"}));
  EXPECT_EQ(hosts_of("n[099-100]"), Hosts({"n099", "n100"}));
}

TEST(HostList, ThatIsNoneIsQuoted) {
  for (const std::string text :
       {"", ",", "a,", ",a", "a[", "a]", "a[]", "a[1", "a[1-]", "a[-1]", "a[2-1]", "a[x]",
        "a[1-2-3]", "a[[1]]", "a[1,]", "a][", "a[0-1000000]", "a[0-99999]b[0-99999]"}) {
    try {
      hosts_of(text);
      ADD_FAILURE() << "'" << text << "' was taken";
    } catch (const UsageError& error) {
      EXPECT_NE(std::string(error.what()).find("'" + text + "' is no list of hosts"),
                std::string::npos)
          << error.what();
    }
  }
}

TEST(HostList, TasksAreWrittenOut) {
  EXPECT_EQ(tasks_of_hosts("3"), std::vector<int>({3}));
  EXPECT_EQ(tasks_of_hosts("4(x2)"), std::vector<int>({4, 4}));
  EXPECT_EQ(tasks_of_hosts("2(x3),1,4(x1)"), std::vector<int>({2, 2, 2, 1, 4}));
}

TEST(HostList, TasksThatAreNoneAreQuoted) {
  for (const std::string text : {"", ",", "4,", "4(x", "4(x)", "4(x0)", "4(xx2)", "(x2)", "4(2)",
                                 "-1", "4(x2)a", "x", "4 "}) {
    EXPECT_THROW(tasks_of_hosts(text), UsageError) << text;
  }
}

}  // namespace
}  // namespace lockstep
