// PowerSGD: what it refuses, and what it keeps of gradients that are not finite.
#include "ddp/power_sgd.h"

#include "ddp/communication_hooks.h"
#include "ddp/distributed_data_parallel.h"
#include "ddp/errors.h"
#include "tests/ddp/forked_world.h"
#include "tests/ddp/modules.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <chrono>
#include <functional>
#include <sstream>

namespace lockstep {
namespace {

using testing::Group;
using testing::numbers;
using testing::run_world;
using testing::same;

std::string refused(const PowerSgdOptions& options) {
  try {
    const PowerSgd power_sgd(options);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "nothing";
}

TEST(PowerSgd, RefusesOptionsThatItCannotFollow) {
  EXPECT_EQ(refused({.matrix_approximation_rank = 0}),
            "PowerSgd: matrix_approximation_rank is 0, expected at least 1");
  EXPECT_EQ(refused({.start_power_sgd_iter = -1}),
            "PowerSgd: start_power_sgd_iter is -1, expected at least 0");
  EXPECT_EQ(refused({.min_compression_rate = 0.0}),
            "PowerSgd: min_compression_rate is 0, expected more than 0");
  EXPECT_EQ(refused({}), "nothing");
}

// A linear layer whose gradient is another matrix on each rank and in each step.
struct Trained {
  Trained(const Group& group, std::shared_ptr<PowerSgd> hook)
      : rank(group->getRank()),
        net(torch::nn::LinearOptions(12, 10).bias(false)),
        ddp(net, {.process_group = group}) {
    ddp->register_comm_hook(std::move(hook));
  }
  std::string step(int number) {
    net->zero_grad();
    torch::manual_seed(static_cast<std::uint64_t>(100 * number + rank));
    ddp.forward(torch::rand({4, 12})).pow(2).sum().backward();
    return numbers(net->weight.grad().sum(0));
  }
  const int rank;
  torch::nn::Linear net;
  DistributedDataParallel<torch::nn::LinearImpl> ddp;
};

// The hook as it is now, in an archive.
std::string saved(const PowerSgd& hook, const Trained& trained) {
  std::ostringstream bytes;
  torch::serialize::OutputArchive archive;
  hook.save(archive, *trained.net);
  archive.save_to(bytes);
  return bytes.str();
}

void load(PowerSgd& hook, const Trained& trained, const std::string& bytes) {
  std::istringstream stream(bytes);
  torch::serialize::InputArchive archive;
  archive.load_from(stream);
  hook.load(archive, *trained.net);
}

TEST(PowerSgd, RefusesAStateOfAnotherModuleAndKeepsItsOwn) {
  const auto reports = run_world(1, [](const Group& group) {
    const auto hook = std::make_shared<PowerSgd>(
        PowerSgdOptions{.start_power_sgd_iter = 0, .min_compression_rate = 1.0});
    Trained trained(group, hook);
    trained.step(0);
    const auto before = numbers(hook->left_out(trained.net->weight));
    std::string report;
    const auto reported = [&](const auto& call) {
      try {
        call();
        report += "nothing\n";
      } catch (const UsageError& error) {
        report += std::string(error.what()) + "\n";
      }
    };
    torch::nn::Linear wider(13, 10);
    torch::nn::BatchNorm1d other(3);
    torch::serialize::OutputArchive refused;
    reported([&] { hook->save(refused, *wider); });
    std::istringstream bytes(saved(*hook, trained));
    for (torch::nn::Module* const module : {static_cast<torch::nn::Module*>(wider.get()),
                                            static_cast<torch::nn::Module*>(trained.net.get())}) {
      torch::serialize::InputArchive loaded;
      bytes.seekg(0);
      loaded.load_from(bytes);
      reported([&] { hook->load(loaded, *module); });
    }
    report += numbers(hook->left_out(trained.net->weight)) == before ? "kept" : "changed";
    return report;
  });
  EXPECT_EQ(
      reports,
      same(1,
           "PowerSgd::save: the hook has run on parameters that the module does not have\n"
           "PowerSgd::load: 'weight' is [10, 13] in the module and another shape in the archive\n"
           "nothing\nkept"));
}

std::string reported(const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing";
}

// "reported" if it throws an error of these words, else what it threw.
std::string said(const std::function<void()>& act, const std::string& words) {
  const std::string error = reported(act);
  return error.find(words) == std::string::npos ? error : "reported";
}

// Its matrices would be of another size than those of ranks that begin anew.
TEST(PowerSgd, RefusesAStateOfAnotherRankAndAnArchiveOfOthers) {
  const auto reports = run_world(1, [](const Group& group) {
    const auto hook_of_rank = [](std::int64_t rank) {
      return std::make_shared<PowerSgd>(PowerSgdOptions{.matrix_approximation_rank = rank,
                                                        .start_power_sgd_iter = 0,
                                                        .min_compression_rate = 1.0});
    };
    const auto hook = hook_of_rank(2);
    Trained trained(group, hook);
    trained.step(0);
    std::stringstream bytes, of_module;
    torch::serialize::OutputArchive saved, module;
    hook->save(saved, *trained.net);
    saved.save_to(bytes);
    trained.net->save(module);
    module.save_to(of_module);
    std::string report;
    for (std::stringstream* const each : {&bytes, &of_module}) {
      torch::serialize::InputArchive archive;
      archive.load_from(*each);
      report += reported([&] { hook_of_rank(1)->load(archive, *trained.net); }) + "\n";
    }
    return report;
  });
  EXPECT_EQ(reports,
            same(1,
                 "PowerSgd::load: 'weight' is approximated by matrices of rank 2 in the archive, "
                 "expected 1\n"
                 "PowerSgd::load: the archive has no 'names', so PowerSgd::save has not written "
                 "it\n"));
}

// One rank would average what the other approximates, and Gloo ends processes whose peers send
// another number of bytes.
TEST(PowerSgd, ThatOneRankAloneHasLoadedEndsTheInstanceOnAllWithASentence) {
  const PowerSgdOptions options{.start_power_sgd_iter = 2, .min_compression_rate = 1.0};
  const auto reports = run_world(2, [&](const Group& group) {
    const auto first = std::make_shared<PowerSgd>(options);
    const auto second = std::make_shared<PowerSgd>(options);
    Trained trained(group, first), resumed(group, second);
    for (int s = 0; s < 3; ++s) trained.step(s);
    if (group->getRank() == 1) load(*second, resumed, saved(*first, trained));
    return said([&] { resumed.step(3); },
                "the ranks hold different states of PowerSGD (passes so far: 0 on rank 0, 3 on "
                "rank 1); every rank loads its file of one save, or none does");
  });
  EXPECT_EQ(reports, same(2, "reported"));
}

TEST(PowerSgd, ThatRanksHaveLoadedFactorsOfOtherGradientsIsReported) {
  const auto reports = run_world(2, [](const Group& group) {
    const PowerSgdOptions options{.start_power_sgd_iter = 0, .min_compression_rate = 1.0};
    const auto first = std::make_shared<PowerSgd>(options);
    const auto second = std::make_shared<PowerSgd>(options);
    Trained one(group, first), other(group, second);
    one.step(0);
    other.step(1);
    const std::string saves[] = {saved(*first, one), saved(*second, other)};
    load(*first, one, saves[group->getRank()]);
    one.ddp->update_process_group(group);
    return said([&] { one.step(2); }, "passes so far: 1 on rank 0, 1 on rank 1");
  });
  EXPECT_EQ(reports, same(2, "reported"));
}

// Its ranks had one state in the pass before.
TEST(PowerSgd, ThatRanksHaveLoadedFromDifferentSavesIsReportedAfterAPassToo) {
  const auto reports = run_world(2, [](const Group& group) {
    const auto hook = std::make_shared<PowerSgd>(
        PowerSgdOptions{.start_power_sgd_iter = 0, .min_compression_rate = 1.0});
    Trained trained(group, hook);
    std::string saves[2];
    for (int s = 0; s < 2; ++s) {
      trained.step(s);
      saves[s] = saved(*hook, trained);
    }
    load(*hook, trained, saves[group->getRank()]);
    trained.ddp->update_process_group(group);
    return said([&] { trained.step(2); }, "passes so far: 1 on rank 0, 2 on rank 1");
  });
  EXPECT_EQ(reports, same(2, "reported"));
}

// Its peers average in the pass in which it would compare. All continue with one state in the end.
TEST(PowerSgd, ThatOneRankAloneHasLoadedAfterAPassEndsTheNextOneOnAllWithASentence) {
  const auto reports = run_world(3, [](const Group& group) {
    const auto hook = std::make_shared<PowerSgd>(
        PowerSgdOptions{.start_power_sgd_iter = 0, .min_compression_rate = 1.0});
    Trained trained(group, hook);
    trained.step(0);
    const std::string save = saved(*hook, trained);
    const std::string next = trained.step(1);
    if (group->getRank() == 2) load(*hook, trained, save);
    const auto start = std::chrono::steady_clock::now();
    const std::string error = reported([&] { trained.step(2); });
    if (error.find("a state of PowerSGD was loaded between two passes") == std::string::npos)
      return error;
    if (std::chrono::steady_clock::now() - start > std::chrono::seconds(10))
      return std::string("late");
    load(*hook, trained, save);
    trained.ddp->update_process_group(group);
    return std::string(trained.step(1) == next ? "continued" : "other averages");
  });
  EXPECT_EQ(reports, same(3, "continued"));
}

// Its peers have begun the pass for which this rank does not come.
TEST(PowerSgd, ThatBeganAFailedPassOnSomeRanksContinuesWithOneStateOnAll) {
  const auto reports = run_world(2, [](const Group& group) {
    const auto hook = std::make_shared<PowerSgd>(
        PowerSgdOptions{.start_power_sgd_iter = 2, .min_compression_rate = 1.0});
    Trained trained(group, hook);
    trained.step(0);
    if (group->getRank() == 1)
      trained.ddp->report_failure("planted");
    else if (const auto error = reported([&] { trained.step(1); }); error == "nothing")
      return error;
    trained.ddp->update_process_group(group);
    std::string averages;
    for (int s = 1; s < 4; ++s) averages += trained.step(s) + "; ";
    return averages;
  });
  EXPECT_EQ(reports, same(2, reports.front()));
  EXPECT_NE(reports.front().find("; "), std::string::npos) << reports.front();
}

// A gradient that is not finite is not added to every later one.
TEST(PowerSgd, KeepsNothingOfAPassThatIsNotFinite) {
  const auto reports = run_world(2, [](const Group& group) {
    const auto hook = std::make_shared<PowerSgd>(
        PowerSgdOptions{.start_power_sgd_iter = 0, .min_compression_rate = 1.0});
    Trained trained(group, hook);
    trained.step(0);
    const auto before = numbers(hook->left_out(trained.net->weight));
    const double infinite = group->getRank() == 0 ? INFINITY : 1.0;
    trained.net->zero_grad();
    (trained.ddp.forward(torch::ones({4, 12})) * infinite).sum().backward();
    const bool is_seen = !trained.net->weight.grad().isfinite().all().item<bool>();
    return std::string(is_seen ? "seen, " : "hidden, ") +
           (numbers(hook->left_out(trained.net->weight)) == before ? "kept" : "changed");
  });
  EXPECT_EQ(reports, same(2, "seen, kept"));
}

TEST(GradBucket, RefusesABufferThatIsNoBufferOfItsSize) {
  const at::Tensor memory = torch::zeros({6});
  GradBucket bucket(0, true, true, memory, {memory.narrow(0, 0, 6).view({2, 3})},
                    {torch::zeros({2, 3})});
  EXPECT_THROW(bucket.set_buffer(torch::zeros({5})), UsageError);
  EXPECT_THROW(bucket.set_buffer(torch::zeros({12}).slice(0, 0, 12, 2)), UsageError);
  EXPECT_THROW(bucket.set_buffer({}), UsageError);
  bucket.set_buffer(torch::arange(6).to(at::kHalf));
  EXPECT_EQ(numbers(bucket.gradients().front().select(0, 1).to(at::kDouble)), "3 4 5");
}

TEST(QuantizeHook, RefusesEmptyChunks) {
  EXPECT_THROW(quantize_hook(0), UsageError);
}

}  // namespace
}  // namespace lockstep
