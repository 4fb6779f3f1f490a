// Random programs, judged twice: by the clocks, and by a graph of everything that happened in which
// an operation is after another if there is a way. The oracle forgets nothing and looks at all
// pairs.

#include "harness/accelerator/stream_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::accelerator {
namespace {

// The happens-before relation of the operations, step by step.
class Graph {
 public:
  using Step = std::size_t;

  // Behind all those before it.
  Step add(std::vector<Step> before) {
    before_.push_back(std::move(before));
    return before_.size() - 1;
  }

  // All steps that happen before one, and that one.
  std::set<Step> history_of(Step step) const {
    std::vector<Step> open{step};
    std::set<Step> seen;
    while (!open.empty()) {
      const Step next = open.back();
      open.pop_back();
      if (seen.insert(next).second)
        open.insert(open.end(), before_[next].begin(), before_[next].end());
    }
    return seen;
  }

  bool is_before(Step one, Step other) const { return history_of(other).contains(one); }

 private:
  std::vector<std::vector<Step>> before_;
};

// The program as the oracle sees it: lines of steps for the host and for each stream.
class Oracle {
 public:
  explicit Oracle(std::size_t streams) : host_(graph_.add({})), ends_(streams) {
    for (Graph::Step& end : ends_) end = graph_.add({host_});
  }

  void allocate(std::uintptr_t begin, std::size_t bytes, std::size_t stream) {
    blocks_[begin] = {begin + bytes, stream, {}, graph_.add({ends_[stream], host_}), {}};
  }

  // True if there is anything that is not in order.
  bool submit(std::size_t stream, const std::vector<Access>& accesses) {
    const Graph::Step step = submitted(stream, {});
    const std::set<Graph::Step> history = graph_.history_of(step);
    bool is_hazard = false;
    for (const Access& access : accesses) {
      for (auto& [begin, block] : blocks_) {
        if (access.begin < begin || access.begin >= block.end) continue;
        // The memory is its own when all operations that its pool's stream was behind are over.
        for (const Graph::Step each : graph_.history_of(block.allocation)) {
          if (operations_.contains(each) && !history.contains(each)) is_hazard = true;
        }
        for (const Use& use : block.uses) {
          const bool touch = access.begin < use.access.end && use.access.begin < access.end;
          if (touch && (access.writes || use.access.writes) && !history.contains(use.step))
            is_hazard = true;
        }
      }
    }
    operations_.insert(step);
    for (const Access& access : accesses) {
      for (auto& [begin, block] : blocks_) {
        if (access.begin >= begin && access.begin < block.end) block.uses.push_back({access, step});
      }
    }
    return is_hazard;
  }

  Graph::Step record(std::size_t stream) { return submitted(stream, {}); }
  void wait(std::size_t stream, Graph::Step event) { submitted(stream, {event}); }
  void host_wait(Graph::Step event) { host_ = graph_.add({host_, event}); }
  void use_on(std::uintptr_t begin, std::size_t stream) {
    blocks_.at(begin).also_on.insert(stream);
  }

  bool free(std::uintptr_t begin) {
    const Block block = blocks_.at(begin);
    blocks_.erase(begin);
    // The next operation of the pool's stream on this memory comes after the ends of the streams
    // that were named.
    std::vector<Graph::Step> before{ends_[block.stream], host_};
    for (const std::size_t stream : block.also_on) before.push_back(ends_[stream]);
    const Graph::Step reuse = graph_.add(before);
    for (const Use& use : block.uses) {
      if (!graph_.is_before(use.step, reuse)) return true;
    }
    return false;
  }

 private:
  struct Use {
    Access access;
    Graph::Step step;
  };
  struct Block {
    std::uintptr_t end = 0;
    std::size_t stream = 0;
    std::set<std::size_t> also_on;
    Graph::Step allocation = 0;
    std::vector<Use> uses;
  };

  Graph::Step submitted(std::size_t stream, std::vector<Graph::Step> also) {
    host_ = graph_.add({host_});
    also.push_back(host_);
    also.push_back(ends_[stream]);
    return ends_[stream] = graph_.add(std::move(also));
  }

  Graph graph_;
  Graph::Step host_;
  std::vector<Graph::Step> ends_;
  std::map<std::uintptr_t, Block> blocks_;
  std::set<Graph::Step> operations_;
};

constexpr std::size_t kStreams = 3;
constexpr std::uintptr_t kBlockBytes = 12;

// A program and both judges, who must agree after every step.
class Trial {
 public:
  explicit Trial(unsigned seed) : draw_(seed), oracle_(kStreams) {
    for (std::size_t stream = 0; stream < kStreams; ++stream)
      judge_.add_stream(std::to_string(stream));
    allocate(100);
    allocate(200);
  }

  // Hazards and steps in order.
  std::pair<int, int> run(int steps) {
    for (int step = 0; step < steps; ++step) {
      const bool expected = take_a_step();
      const bool given = !judge_.hazards().empty();
      EXPECT_EQ(given, expected) << "step " << step;
      if (given != expected) break;
      ++(given ? hazards_ : in_order_);
      judge_.clear_hazards();
    }
    return {hazards_, in_order_};
  }

 private:
  std::size_t below(std::size_t count) { return draw_() % count; }

  void allocate(std::uintptr_t begin) {
    const std::size_t stream = below(kStreams);
    judge_.allocate(begin, kBlockBytes, stream);
    oracle_.allocate(begin, kBlockBytes, stream);
  }

  Access access() {
    const std::uintptr_t begin = (below(2) == 0 ? 100 : 200) + below(kBlockBytes);
    const std::uintptr_t end = begin + 1 + below(kBlockBytes - begin % 100);
    return {.begin = begin, .end = end, .writes = below(2) == 0};
  }

  bool take_a_step() {
    const std::size_t stream = below(kStreams);
    switch (below(8)) {
      case 0:
        events_.emplace_back(judge_.record(stream), oracle_.record(stream));
        return false;
      case 1:
      case 2:
        if (const auto* const event = some_event()) {
          judge_.wait(stream, event->first);
          oracle_.wait(stream, event->second);
        }
        return false;
      case 3:
        if (below(3) != 0) return false;
        if (const auto* const event = some_event()) {
          judge_.host_wait(event->first);
          oracle_.host_wait(event->second);
        }
        return false;
      case 4: {
        const std::uintptr_t begin = below(2) == 0 ? 100 : 200;
        if (below(2) == 0) {
          judge_.use_on(begin, stream);
          oracle_.use_on(begin, stream);
          return false;
        }
        judge_.free(begin);
        const bool is_hazard = oracle_.free(begin);
        allocate(begin);
        return is_hazard;
      }
      default: {
        std::vector<Access> accesses{access()};
        if (below(2) == 0) accesses.push_back(access());
        judge_.submit(stream, "operation", accesses);
        return oracle_.submit(stream, accesses);
      }
    }
  }

  // Rather a late one: early ones order nothing new.
  const std::pair<Clock, Graph::Step>* some_event() {
    if (events_.empty()) return nullptr;
    return &events_[events_.size() - 1 - below(std::min<std::size_t>(events_.size(), 4))];
  }

  std::minstd_rand draw_;
  StreamOrder judge_;
  Oracle oracle_;
  std::vector<std::pair<Clock, Graph::Step>> events_;
  int hazards_ = 0;
  int in_order_ = 0;
};

TEST(StreamOrderOracle, AgreesOnEveryStepOfRandomPrograms) {
  int hazards = 0;
  int in_order = 0;
  for (unsigned seed = 1; seed <= 3000 && !HasFailure(); ++seed) {
    const auto [found, fine] = Trial(seed).run(40);
    hazards += found;
    in_order += fine;
  }
  // Neither answer is rare, or agreeing would mean little.
  EXPECT_GT(hazards, 10000);
  EXPECT_GT(in_order, 10000);
}

}  // namespace
}  // namespace lockstep::accelerator
