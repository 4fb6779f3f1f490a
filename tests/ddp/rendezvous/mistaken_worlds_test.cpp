// Worlds in which processes were started with mistakes: however these mix, every process that lives
// receives one of our sentences within the timeout, and a world without mistakes connects.
#include "ddp/errors.h"
#include "ddp/init.h"
#include "tests/ddp/forked_world.h"
#include "tests/ddp/rendezvous/rendezvous_addresses.h"

#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <random>
#include <set>
#include <sstream>
#include <unistd.h>

namespace lockstep {
namespace {

using namespace std::chrono_literals;

struct Process {
  int rank = 0;
  int world_size = 1;
  std::string backend = "gloo";
  std::string interface_name = "lo";
  bool has_other_version = false;
  int dies_at = 0;  // which use of its store; 0: it lives
};

struct World {
  int size = 1;
  std::vector<Process> processes;

  bool is_right() const {
    return static_cast<int>(processes.size()) == size &&
           std::all_of(processes.begin(), processes.end(), [&](const Process& each) {
             return each.world_size == size && each.backend == "gloo" &&
                    each.interface_name == "lo" && !each.has_other_version && each.dies_at == 0 &&
                    &each - processes.data() == each.rank;
           });
  }

  bool somebody_dies() const {
    return std::any_of(processes.begin(), processes.end(),
                       [](const Process& each) { return each.dies_at > 0; });
  }

  // Short where somebody may be waited for in vain.
  std::chrono::milliseconds timeout() const { return is_right() ? 20s : 3s; }
};

std::ostream& operator<<(std::ostream& out, const World& world) {
  out << "a world of " << world.size << ":";
  for (const auto& each : world.processes) {
    out << "\n  rank " << each.rank << " of " << each.world_size << ", " << each.backend << " on "
        << each.interface_name << (each.has_other_version ? ", of another version" : "");
    if (each.dies_at > 0) out << ", dies at use " << each.dies_at << " of its store";
  }
  return out;
}

// Ranks 0 to size - 1, with up to three mistakes.
World draw(unsigned seed) {
  std::mt19937 random(seed);
  const auto below = [&](int end) {
    return static_cast<int>(random() % static_cast<unsigned>(end));
  };
  World world{.size = 1 + below(5)};
  for (int rank = 0; rank < world.size; ++rank)
    world.processes.push_back({.rank = rank, .world_size = world.size});
  for (int mistakes = below(4); mistakes > 0; --mistakes) {
    auto& list = world.processes;
    auto& one = list[static_cast<std::size_t>(below(static_cast<int>(list.size())))];
    switch (below(7)) {
      case 0:
        if (list.size() < 6) list.push_back(Process(one));  // one rank twice
        break;
      case 1:
        one.world_size += one.rank + 1 < one.world_size && below(2) == 0 ? -1 : 1;
        break;
      case 2:
        one.has_other_version = true;
        break;
      case 3:
        one.interface_name = "nope0";
        break;
      case 4:
        one.backend = "cpu:gloo";
        break;
      case 5:
        if (list.size() > 1) list.erase(list.begin() + (&one - list.data()));
        break;
      default:
        one.dies_at = 1 + below(24);
    }
  }
  // A rank 0 with a store of the test's opens it itself, and there can be one of these.
  const auto is_zero = [](const Process& each) { return each.rank == 0; };
  if (std::count_if(world.processes.begin(), world.processes.end(), is_zero) > 1) {
    for (auto& each : world.processes) {
      if (each.rank != 0) continue;
      each.has_other_version = false;
      each.dies_at = 0;
    }
  }
  return world;
}

// The store of a process that dies at one of its uses, or is of another version.
class OddStore : public c10d::PrefixStore {
 public:
  OddStore(c10::intrusive_ptr<c10d::Store> store, const Process& process)
      : PrefixStore("lockstep/attempt_0", std::move(store)), process_(process) {}

  void set(const std::string& key, const std::vector<std::uint8_t>& value) override {
    use();
    PrefixStore::set(key, of_version(value));
  }
  std::vector<std::uint8_t> compareSet(const std::string& key,
                                       const std::vector<std::uint8_t>& expected,
                                       const std::vector<std::uint8_t>& desired) override {
    use();
    // A result of all has been read from the store.
    return PrefixStore::compareSet(key, expected,
                                   key.ends_with("/result") ? desired : of_version(desired));
  }
  std::vector<std::uint8_t> get(const std::string& key) override {
    use();
    return PrefixStore::get(key);
  }
  std::int64_t add(const std::string& key, std::int64_t value) override {
    use();
    return PrefixStore::add(key, value);
  }
  bool check(const std::vector<std::string>& keys) override {
    use();
    return PrefixStore::check(keys);
  }
  void wait(const std::vector<std::string>& keys,
            const std::chrono::milliseconds& timeout) override {
    use();
    PrefixStore::wait(keys, timeout);
  }

 private:
  // The introduction of this process, in the words of another version.
  std::vector<std::uint8_t> of_version(std::vector<std::uint8_t> value) const {
    const std::string own = "Lockstep ", other = "LockStep ";
    const auto at = std::search(value.begin(), value.end(), own.begin(), own.end());
    if (process_.has_other_version && at != value.end()) std::copy(other.begin(), other.end(), at);
    return value;
  }

  void use() {
    if (++uses_ == process_.dies_at) ::_exit(5);
  }

  Process process_;
  int uses_ = 0;
};

std::string report_of(const World& world, const Process& process, int port) {
  testing::stand(process.rank, process.world_size, "127.0.0.1", port);
  InitOptions options{.backend = process.backend,
                      .interface_name = process.interface_name,
                      .timeout = world.timeout()};
  if (process.has_other_version || process.dies_at > 0) {
    c10d::TCPStoreOptions store;
    store.port = static_cast<std::uint16_t>(port);
    store.isServer = process.rank == 0;
    store.waitWorkers = false;
    store.timeout = 1s;  // it tries for three times as long
    try {
      options.store = c10::make_intrusive<OddStore>(
          c10::make_intrusive<c10d::TCPStore>("127.0.0.1", store), process);
    } catch (const std::exception&) {
      return "no store for the test";
    }
    options.rank = process.rank;
    options.world_size = process.world_size;
  }
  const auto group = init_process_group(options);
  // A sum over all makes sure that they are connected. It may fail where a process then dies.
  std::vector<at::Tensor> sum = {at::ones({1})};
  if (!world.somebody_dies()) group->allreduce(sum)->wait();
  return "met";
}

// The words that one of our sentences has, each of which says what to look for.
const std::vector<std::string> kKnown = {
    "has arrived here before: two processes have this rank",
    "ranks disagree on the world size: rank",
    "ranks disagree on the version: rank",
    "ranks disagree on the backends (InitOptions::backend, equal on all ranks, leaves nothing to "
    "decide): rank",
    "cannot take part: it cannot listen on the interface nope0",
    "those that came here before have given up: ",
    "these ranks did not come: ",
    "all ranks came, and these did not answer: ",
    "all ranks came, and these did not connect: ",
    "cannot connect over gloo: ",
    "no store answers there: rank 0, which holds it, has not come",
    "the store is gone: rank 0, which holds it, has ended",
    "what accepts connections there does not answer as a store",  // it is about to leave
    "rank 0 cannot open the store there: the port is in use",     // and its owner left when asked
    "the store does not answer any more: rank 0, which holds it, may be stopped",
};

bool is_known(const std::string& report) {
  return std::any_of(kKnown.begin(), kKnown.end(), [&](const std::string& part) {
    return report.find(part) != std::string::npos;
  });
}

void expect_reported_by_all(const World& world, const std::vector<std::string>& reports) {
  std::multiset<int> met;
  bool somebody_died = false;
  for (std::size_t at = 0; at < reports.size(); ++at) {
    const Process& process = world.processes[at];
    const bool is_odd = process.has_other_version || process.dies_at > 0;
    if (reports[at] == "met") {
      met.insert(process.rank);
    } else if (reports[at] == "died: exit 5") {
      EXPECT_GT(process.dies_at, 0);
      somebody_died = true;
    } else if (is_odd) {
      // The test has opened its store, and what that says is the test's.
      EXPECT_EQ(reports[at].find("died"), std::string::npos) << reports[at];
    } else {
      EXPECT_TRUE(is_known(reports[at])) << reports[at];
    }
  }
  // A process whose rendezvous succeeded has a whole world: one process of each rank, or a world of
  // one by mistake.
  for (std::size_t at = 0; at < reports.size(); ++at) {
    const int size = world.processes[at].world_size;
    if (reports[at] != "met" || somebody_died) continue;
    for (int rank = 0; rank < size; ++rank) EXPECT_EQ(met.count(rank), 1u);
  }
}

class MistakenWorlds : public ::testing::TestWithParam<unsigned> {};

// With --gtest_shuffle and --gtest_random_seed other worlds; LOCKSTEP_TELL_WORLDS has them
// reported.
TEST_P(MistakenWorlds, EveryProcessReceivesTheReasonOrCompletesTheRendezvous) {
  const auto seed =
      1000U * static_cast<unsigned>(::testing::UnitTest::GetInstance()->random_seed());
  const World world = draw(seed + GetParam());
  const auto reports = testing::run_world(
      static_cast<int>(world.processes.size()), [&](const testing::Group& group) {
        const int own = group->getRank();
        const int port = testing::sent_to_all(group, own == 0 ? testing::free_port() : 0);
        return report_of(world, world.processes[static_cast<std::size_t>(own)], port);
      });
  std::ostringstream story;
  story << world << "\n";
  for (const auto& report : reports) story << "> " << report << "\n";
  SCOPED_TRACE(story.str());
  if (std::getenv("LOCKSTEP_TELL_WORLDS") != nullptr) std::cout << story.str();
  if (world.is_right()) {
    EXPECT_EQ(reports, testing::same(world.size, "met"));
  } else {
    expect_reported_by_all(world, reports);
  }
}

INSTANTIATE_TEST_SUITE_P(Drawn, MistakenWorlds, ::testing::Range(0U, 16U));

}  // namespace
}  // namespace lockstep
