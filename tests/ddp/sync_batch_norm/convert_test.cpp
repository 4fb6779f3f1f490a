// convert_sync_batchnorm() and the way back on a whole model: what becomes of its tensors, its keys
// and its bits.
#include "ddp/batch_norm.h"
#include "ddp/convert_sync_batchnorm.h"
#include "ddp/sync_batch_norm.h"
#include "tests/ddp/forked_world.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <sstream>

namespace lockstep {
namespace {

using testing::Group;
using testing::numbers;
using testing::run_world;
using testing::same;

at::Tensor draw(std::uint64_t seed, std::vector<std::int64_t> shape) {
  auto generator = at::detail::createCPUGenerator(seed);
  return torch::randn(shape, generator, torch::kDouble) * 2 + static_cast<double>(seed);
}

// A class that calls its layers by members of its own.
struct NetImpl : torch::nn::Module {
  torch::nn::Linear first = register_module("first", torch::nn::Linear(2, 3));
  BatchNorm1d norm = register_module("norm", BatchNorm1d(3));
  torch::nn::Sequential inner = register_module(
      "inner", torch::nn::Sequential(torch::nn::Linear(3, 3), torch::nn::BatchNorm1d(3)));
  torch::nn::ModuleList list = register_module("list", torch::nn::ModuleList());
  torch::nn::ModuleDict dict = register_module("dict", torch::nn::ModuleDict());

  NetImpl() {
    list->push_back(torch::nn::BatchNorm1d(3));
    torch::nn::ModuleList nested(torch::nn::BatchNorm1d(3), torch::nn::Linear(3, 1));
    dict->update({{"z", nested.ptr()}, {"a", torch::nn::BatchNorm1d(1).ptr()}});
    to(at::kDouble);
    const torch::NoGradGuard no_grad;
    std::uint64_t seed = 0;
    for (auto& each : parameters()) each.copy_(draw(++seed % 3, each.sizes().vec()));
  }

  // A layer of a list or a dict is asked for by what it may be.
  static at::Tensor call(const std::shared_ptr<torch::nn::Module>& norm, const at::Tensor& input) {
    if (auto* const sync = norm->as<SyncBatchNormImpl>()) return sync->forward(input);
    return norm->as<torch::nn::BatchNorm1dImpl>()->forward(input);
  }

  at::Tensor forward(const at::Tensor& input) {
    at::Tensor x = call(list->ptr(0), inner->forward(norm->forward(first->forward(input))));
    auto& nested = dict->at<torch::nn::ModuleListImpl>("z");
    x = call(nested.ptr(0), x).tanh();
    return call((*dict)["a"], nested.at<torch::nn::LinearImpl>(1).forward(x));
  }
};
TORCH_MODULE(Net);

std::string keys_and_values(torch::nn::Module& module) {
  std::string text;
  for (const auto& each : module.named_parameters())
    text += each.key() + " " + numbers(each.value()) + "\n";
  for (const auto& each : module.named_buffers())
    text += each.key() + " " + numbers(each.value()) + "\n";
  return text;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (auto at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

TEST(Convert, ChangesLayersAloneAndNoKeyOrderOrTensor) {
  const auto reports = run_world(1, [](const Group& group) -> std::string {
    Net net;
    const std::string before = c10::str(*net), state = keys_and_values(*net);
    const auto parameters = net->parameters(), buffers = net->buffers();
    const auto dict_keys = net->dict->keys();
    if (convert_sync_batchnorm(net, group) != net.ptr()) return "another root";
    std::string expected = replaced(before, "torch::nn::BatchNorm1d(", "lockstep::SyncBatchNorm(");
    expected = replaced(expected,
                        "(norm): lockstep::BatchNorm1d(3, eps=1e-05, momentum=0.1, "
                        "affine=true, track_running_stats=true)",
                        "(norm): lockstep::BatchNorm1d(3, eps=1e-05, momentum=0.1, affine=true, "
                        "track_running_stats=true), over all ranks");
    if (c10::str(*net) != expected) return c10::str(*net);
    if (keys_and_values(*net) != state || net->dict->keys() != dict_keys) return "another state";
    for (std::size_t i = 0; i < parameters.size(); ++i)
      if (!parameters[i].is_same(net->parameters()[i])) return "another parameter";
    for (std::size_t i = 0; i < buffers.size(); ++i)
      if (!buffers[i].is_same(net->buffers()[i])) return "another buffer";
    return "the same";
  });
  EXPECT_EQ(reports, same(1, "the same"));
}

TEST(Convert, LoadsWhatWasSavedBeforeAndTheOtherWayRound) {
  const auto reports = run_world(1, [](const Group& group) -> std::string {
    const auto changed = [](Net net) {
      const torch::NoGradGuard no_grad;
      for (auto& each : net->parameters()) each.add_(1);
      for (auto& each : net->buffers()) each.add_(2);
      return keys_and_values(*net);
    };
    Net net, converted;
    convert_sync_batchnorm(converted, group);
    std::stringstream there, back;
    const std::string state = changed(net);
    torch::save(net, there);
    torch::load(converted, there);
    if (keys_and_values(*converted) != state) return keys_and_values(*converted);
    const std::string later = changed(converted);
    torch::save(converted, back);
    torch::load(net, back);
    return keys_and_values(*net) == later ? "the same" : keys_and_values(*net);
  });
  EXPECT_EQ(reports, same(1, "the same"));
}

TEST(Revert, GivesTheSameObjectsBackWithTheTensorsAndTheModeOfNow) {
  const auto reports = run_world(2, [](const Group& group) {
    Net net;
    const std::string before = c10::str(*net);
    const auto plain = net->inner->ptr(1);
    convert_sync_batchnorm(net, group);
    net->forward(draw(static_cast<std::uint64_t>(group->getRank()), {3, 2}));
    const std::string state = keys_and_values(*net);
    net->eval();
    net->to(at::kFloat);
    net->to(at::kDouble);
    const bool same_root = revert_sync_batchnorm(net) == net.ptr();
    const bool in_evaluation = !plain->is_training();
    net->train();
    // By its own batch again: ranks do not wait for each other.
    if (group->getRank() == 0) net->forward(draw(1, {3, 2}));
    return c10::str(same_root, before == c10::str(*net), plain == net->inner->ptr(1), in_evaluation,
                    plain == net->inner->children()[1], " ", state.size() > 100);
  });
  EXPECT_EQ(reports, same(2, "11111 1"));
}

TEST(Revert, AndConversionChangeNoBitOfEvaluation) {
  for (const auto dtype : {at::kHalf, at::kFloat, at::kDouble}) {
    const auto reports = run_world(1, [&](const Group& group) {
      Net net;
      for (int step = 0; step < 3; ++step) net->forward(draw(2, {5, 2}));
      net->to(dtype);
      net->eval();
      const at::Tensor input = draw(3, {4, 2}).to(dtype);
      const at::Tensor before = net->forward(input);
      convert_sync_batchnorm(net, group);
      const at::Tensor between = net->forward(input);
      revert_sync_batchnorm(net);
      return c10::str(before.equal(between), before.equal(net->forward(input)),
                      before.abs().sum().item<double>() > 0);
    });
    EXPECT_EQ(reports, same(1, "111"));
  }
}

}  // namespace
}  // namespace lockstep
