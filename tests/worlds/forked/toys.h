// A scenario whose ranks do what its case says, and lanes to run it on.
#pragma once

#include "harness/rank/rank_context.h"
#include "harness/worlds/forked/lane.h"
#include "harness/worlds/gloo/served_store.h"
#include "harness/worlds/subject.h"
#include "harness/worlds/tiers.h"
#include "tests/process/support.h"

#include <map>
#include <memory>

namespace lockstep {

// The program of rank `rank`; the others return, having recorded "there".
struct Toy {
  WorldSpec world;
  std::string act = "return";
  int rank = 0;
  static constexpr auto fields() {
    return std::tuple{field("world", &Toy::world), field("act", &Toy::act),
                      field("rank", &Toy::rank)};
  }
};

Scenario toy_scenario();

// A test on the tier that is its parameter.
class ForkedTest : public testing_support::LeavesNothing,
                   public ::testing::WithParamInterface<std::string> {
 protected:
  void SetUp() override {
    // The first store that a process serves leaves it two descriptors of libuv's, for good.
    if (GetParam() == "launched") ServedStore("127.0.0.1", listen_on("127.0.0.1"));
    LeavesNothing::SetUp();
  }
  void TearDown() override {
    lanes_.clear();
    LeavesNothing::TearDown();
  }
  Tier& lane(int lanes = 1) {
    if (lanes_.empty()) {
      ForkedOptions options{.ranks_most = 8, .journal_bytes = size_t{16} << 20};
      options.grace = std::chrono::seconds(5);
      if (GetParam() == "launched")
        lanes_ = launched_here(options, lanes);
      else
        lanes_ = forked_lanes({}, {scenario_}, Subjects{Subject{.name = "bare"}}, lanes, options);
    }
    return *lanes_.front();
  }
  History run(const Toy& toy, std::chrono::milliseconds limit = std::chrono::seconds(60)) {
    return run_on(lane(), toy, limit);
  }
  History run_on(Tier& tier, const Toy& toy, std::chrono::milliseconds limit) const {
    return tier.run(scenario_, {scenario_.name, to_json(toy)}, setting(), {limit});
  }
  static Setting setting() {
    return {.subject = "bare", .tier = GetParam(), .backend = is_sim() ? "memory" : "gloo"};
  }
  static bool is_sim() { return GetParam() == "sim"; }
  static Toy toy(const std::string& act, int size, int rank = 0) {
    return {.world = {.size = size}, .act = act, .rank = rank};
  }
  static std::vector<Ending> endings(const History& history) {
    std::vector<Ending> all;
    for (const auto& rank : history.ranks()) all.push_back(rank.ending);
    return all;
  }
  // How the one rank of a world ended.
  Ending ending(const std::string& act,
                std::chrono::milliseconds limit = std::chrono::seconds(60)) {
    return endings(run(toy(act, 1), limit)).at(0);
  }
  // Lanes of launched worlds whose members are other servers of this process, so that all of a
  // launched world is there but the launcher and the network.
  std::vector<std::unique_ptr<Tier>> launched_here(const ForkedOptions& options, int lanes) const;
  // The output of the ranks of the last case, by file.
  static std::map<std::string, std::string> kept_output(Tier& tier, const History& history = {});

  Scenario scenario_ = toy_scenario();
  std::vector<std::unique_ptr<Tier>> lanes_;
};

}  // namespace lockstep
