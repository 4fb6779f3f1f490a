// Communication hooks: how they and their passes fail, and what is compared.
#include "ddp/communication_hooks.h"
#include "ddp/distributed_data_parallel.h"
#include "ddp/errors.h"
#include "tests/ddp/forked_world.h"
#include "tests/ddp/hooks/called.h"
#include "tests/ddp/modules.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace lockstep {
namespace {

using testing::called;
using testing::Called;
using testing::Group;
using testing::Make;
using testing::run_world;
using testing::same;
using testing::share;
using testing::Terms;
using testing::validation_errors_in;
using Loss = testing::TermsImpl::Loss;

// "DisagreementError: ..." of what `act` throws, or "nothing".
std::string thrown_by(const std::function<void()>& act) {
  try {
    act();
  } catch (const DisagreementError& error) {
    return std::string("DisagreementError: ") + error.what();
  } catch (const UsageError& error) {
    return std::string("UsageError: ") + error.what();
  } catch (const CommunicationError& error) {
    return std::string("CommunicationError: ") + error.what();
  } catch (const UnfinishedReductionError& error) {
    return validation_errors_in(error);
  }
  return "nothing";
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(CommunicationHooks, LetRanksThatLackAGradientBeReported) {
  for (const Make hook : {Make(all_reduce_hook), Make([] { return fp16_compress_hook(); })}) {
    const auto reports = run_world(2, [&](const Group& group) {
      Terms net(2, 2, 0.0, at::kFloat);
      DistributedDataParallel ddp(net, {.process_group = group, .bucket_cap_mb = 0.0});
      ddp->register_comm_hook(hook());
      std::string report = thrown_by([&] {
        const bool lacks = group->getRank() == 1;
        ddp.forward(lacks ? Loss{{0, 1.0}} : Loss{{0, 1.0}, {1, 1.0}}).backward();
      });
      net->zero_grad();
      ddp.forward(Loss{{0, share(group)}, {1, 8.0}}).backward();
      return report + "; " + net->gradients();
    });
    for (const std::string& each : reports) {
      EXPECT_TRUE(has(each, "rank 0: all is well; rank 1: lacks 'w1'. ")) << each;
      EXPECT_TRUE(each.ends_with("; 3 3 | 8 8")) << each;
    }
  }
}

TEST(CommunicationHooks, AreComparedAndRegisteredOnceBeforeTheFirstPass) {
  const auto reports = run_world(2, [](const Group& group) {
    Terms net(1);
    DistributedDataParallel ddp(net, {.process_group = group});
    std::string report = thrown_by([&] { ddp->register_comm_hook(nullptr); }) + "\n";
    report += thrown_by([&] {
      ddp->register_comm_hook(group->getRank() == 0 ? fp16_compress_hook() : bf16_compress_hook());
    });
    report += "\n" + thrown_by([&] { ddp->register_comm_hook(noop_hook()); });
    report += "\n" + thrown_by([&] { ddp->register_comm_hook(noop_hook()); });
    DistributedDataParallel late(net, {.process_group = group});
    late.forward(Loss{{0, 1.0}}).backward();
    return report + "\n" + thrown_by([&] { late->register_comm_hook(noop_hook()); });
  });
  EXPECT_EQ(reports, same(2,
                          "UsageError: register_comm_hook: the hook is null\n"
                          "DisagreementError: ranks disagree on the communication hook: rank 0 has "
                          "'fp16_compress'; rank 1 has 'bf16_compress'\n"
                          "nothing\n"
                          "DisagreementError: ranks 0 and 1 of 2 cannot take part: "
                          "register_comm_hook() was called, and the "
                          "communication hook 'noop' is registered already; it can be called once\n"
                          "DisagreementError: ranks 0 and 1 of 2 cannot take part: "
                          "register_comm_hook() was called after a "
                          "synchronised backward pass; call it before"));
}

// At its start and at its end, and by what it returns.
TEST(CommunicationHooks, ThatFailOnOneRankEndTheInstanceOnAllUntilItStartsAfresh) {
  for (const std::string& where : {"start", "end", "result"}) {
    const auto reports = run_world(2, [&](const Group& group) {
      Terms net(1);
      DistributedDataParallel ddp(net, {.process_group = group});
      bool fails = group->getRank() == 1;
      ddp->register_comm_hook(called([&](GradBucket& bucket, HookCollectives& collectives) {
        const at::Tensor sum = bucket.buffer();
        if (fails && where == "start") throw std::runtime_error("out of luck");
        return HookResult(
            [&fails, &where, sum, all_reduce = collectives.all_reduce(sum)]() mutable {
              if (fails && where == "end") throw std::runtime_error("out of luck");
              all_reduce.wait();
              return fails && where == "result" ? sum.narrow(0, 0, 1) : sum;
            });
      }));
      const auto step = [&] {
        net->zero_grad();
        ddp.forward(Loss{{0, share(group)}}).backward();
      };
      std::string report;
      // A rank that is done with this pass receives the error in the next one.
      for (int i = 0; i < 2 && report.empty(); ++i) {
        const std::string error = thrown_by(step);
        const std::string what =
            where == "result" ? "it returned 1 elements of Double on cpu, expected 2 elements"
                              : "out of luck";
        if (error != "nothing")
          report = has(error, "communication hook 'called' for gradient bucket 0") &&
                           has(error, group->getRank() == 1 ? "rank 1: " : "rank 1 reported: ") &&
                           has(error, what)
                       ? "reported; "
                       : error;
      }
      fails = false;
      ddp->update_process_group(group);
      step();
      return report + net->gradients();
    });
    EXPECT_EQ(reports, same(2, "reported; 6 6")) << where;
  }
}

TEST(CommunicationHooks, ThatMisuseACollectiveEndTheInstanceWithASentence) {
  const std::vector<std::pair<Called::Run, std::string>> misuses{
      {[](GradBucket& bucket, HookCollectives& collectives) {
         auto sum = collectives.all_reduce(bucket.buffer());
         auto copy = sum;
         sum.wait();
         copy.wait();
         return HookResult(bucket.buffer());
       },
       "a StartedCollective is waited for once, and this one, or a copy, was before"},
      {[](GradBucket& bucket, HookCollectives& collectives) {
         auto gathered = collectives.all_gather(bucket.buffer());
         gathered.wait_for_parts();
         gathered.wait_for_parts();
         return HookResult(bucket.buffer());
       },
       "a StartedCollective is waited for once, and this one, or a copy, was before"},
      {[](GradBucket& bucket, HookCollectives& collectives) {
         auto sum = collectives.all_reduce(bucket.buffer().expand({2, -1}).t());
         return HookResult(bucket.buffer());
       },
       "HookCollectives::all_reduce: expected a contiguous tensor"},
      {[](GradBucket&, HookCollectives&) { return HookResult(at::Tensor()); },
       "it returned an undefined tensor, expected 2 elements of Double on cpu"},
      {[](GradBucket& bucket, HookCollectives&) {
         return HookResult(bucket.buffer().to(at::kFloat));
       },
       "it returned 2 elements of Float on cpu, expected 2 elements of Double on cpu"}};
  for (const auto& each : misuses) {
    const auto reports = run_world(2, [&](const Group& group) {
      Terms net(1);
      DistributedDataParallel ddp(net, {.process_group = group});
      ddp->register_comm_hook(called(each.first));
      const std::string error = thrown_by([&] { ddp.forward(Loss{{0, 1.0}}).backward(); });
      return has(error, each.second) ? "reported" : error;
    });
    EXPECT_EQ(reports, same(2, "reported")) << each.second;
  }
}

}  // namespace
}  // namespace lockstep
