// Parameters and buffers that are registered, removed or replaced after the module was wrapped.
#include "ddp/distributed_data_parallel.h"
#include "ddp/errors.h"
#include "tests/ddp/forked_world.h"
#include "tests/ddp/modules.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>

namespace lockstep {
namespace {

using testing::Group;
using testing::run_world;

struct Adapted : torch::nn::Module {
  at::Tensor base = register_parameter("base", torch::ones({1}, at::kDouble));
  torch::nn::Sequential parts = register_module("parts", torch::nn::Sequential(part()));

  static torch::nn::Linear part() {
    torch::nn::Linear made(1, 1);
    made->to(at::kDouble);
    return made;
  }
  at::Tensor forward(double factor) {
    at::Tensor out = base * factor;
    for (const auto& each : named_parameters()) out = out + each.value().sum() * factor;
    return out.sum();
  }
  void remove_parts() { unregister_module("parts"); }
  void replace_parts() { replace_module("parts", torch::nn::Sequential(part())); }
};

struct Change {
  std::function<void(Adapted& net, double rank)> make;
  std::string sentence;
};

const std::string kCure =
    "; make it equal on all ranks and call update_trainable_parameters() on every rank";
const std::vector<Change> kChanges = {
    {[](Adapted& net, double rank) {
       net.register_parameter("down", torch::full({1}, rank, at::kDouble));
     },
     "parameter 'down' was registered after the module was wrapped" + kCure},
    {[](Adapted& net, double) { net.parts->push_back(Adapted::part()); },
     "parameter 'parts.1.weight' was registered after the module was wrapped" + kCure},
    {[](Adapted& net, double) { net.remove_parts(); },
     "parameter 'parts.0.weight' was removed after the module was wrapped; call "
     "update_trainable_parameters() on every rank"},
    {[](Adapted& net, double) { net.replace_parts(); },
     "parameter 'parts.0.weight' is another tensor than the one that was wrapped" + kCure},
    {[](Adapted& net, double rank) { net.register_buffer("mask", torch::full({1}, rank)); },
     "buffer 'mask' was registered after the module was wrapped; wrap it again"}};

// The sentence of the rank that made the change, and the one that its peers receive.
void expect_reported(const std::vector<std::string>& reports, const std::vector<int>& changed,
                     const std::string& sentence) {
  for (int rank = 0; rank < static_cast<int>(reports.size()); ++rank) {
    const auto& report = reports[static_cast<std::size_t>(rank)];
    const bool is_own = std::find(changed.begin(), changed.end(), rank) != changed.end();
    EXPECT_TRUE(report.starts_with(is_own ? "UsageError: rank " + std::to_string(rank) + ": "
                                          : "CommunicationError: rank "))
        << report;
    EXPECT_NE(report.find(sentence), std::string::npos) << report;
  }
}

TEST(RegisteredTensors, ThatChangedAreReportedByTheNextForwardOnEveryRank) {
  for (const Change& change : kChanges) {
    for (const bool sends_buffers : {true, false}) {
      for (const std::vector<int>& changed : std::vector<std::vector<int>>{{0, 1}, {0}, {1}}) {
        const auto reports = run_world(2, [&](const Group& group) {
          const auto net = std::make_shared<Adapted>();
          DistributedDataParallel ddp(net,
                                      {.process_group = group, .broadcast_buffers = sends_buffers});
          ddp(1.0).backward();
          const int rank = group->getRank();
          if (std::find(changed.begin(), changed.end(), rank) != changed.end())
            change.make(*net, rank);
          ddp(1.0).backward();
          return std::string("trained apart");
        });
        expect_reported(reports, changed, change.sentence);
      }
    }
  }
}

}  // namespace
}  // namespace lockstep
