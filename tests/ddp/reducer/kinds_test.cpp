// Views of buckets that are refused, and shared parameters.
#include "ddp/distributed_data_parallel.h"
#include "tests/ddp/forked_world.h"
#include "tests/ddp/modules.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace lockstep {
namespace {

using testing::Group;
using testing::numbers;
using testing::run_world;
using testing::same;
using testing::share;
using testing::Terms;
using Loss = testing::TermsImpl::Loss;

TEST(Views, OfTwoInstancesOnOneModuleAreRefused) {
  const auto reports = run_world(2, [](const Group& group) {
    Terms net(2);
    DistributedDataParallel inner(net, {.process_group = group, .gradient_as_bucket_view = true});
    DistributedDataParallel outer(inner, {.process_group = group, .gradient_as_bucket_view = true});
    outer.forward(Loss{{0, 1.0}, {1, 1.0}}).backward();
    return std::string("accepted");
  });
  for (const std::string& report : reports) {
    EXPECT_NE(report.find("another DistributedDataParallel over the same parameters"),
              std::string::npos)
        << report;
  }
}

// Under either of its names.
TEST(Kinds, OfSharedParametersCountOnceAndAreIgnoredUnderAllNamesOrNone) {
  struct Tied : torch::nn::Module {
    Tied() {
      a = register_parameter("a", torch::ones({1}, at::kDouble));
      register_parameter("b", a);
      c = register_parameter("c", torch::ones({1}, at::kDouble));
    }
    at::Tensor forward(double factor) { return (a + c) * factor; }
    at::Tensor a, c;
  };
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{}, "3 3"}, {{"a"}, "3 3"}, {{"b"}, "3 3"}, {{"a", "b"}, "own 3"}};
  for (const auto& [ignored, expected] : cases) {
    const auto reports = run_world(2, [&, &ignored = ignored](const Group& group) {
      const auto net = std::make_shared<Tied>();
      DistributedDataParallel ddp(
          net, {.process_group = group, .parameters_and_buffers_to_ignore = ignored});
      const double own = share(group);
      ddp.forward(own).backward();
      const std::string a = numbers(net->a.grad());
      return (a == numbers(torch::tensor(own)) ? "own" : a) + " " + numbers(net->c.grad());
    });
    EXPECT_EQ(reports, same(2, expected));
  }
}

}  // namespace
}  // namespace lockstep
