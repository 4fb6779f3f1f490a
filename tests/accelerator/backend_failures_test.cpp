#include "harness/accelerator/work.h"
#include "tests/accelerator/worlds.h"

#include <gtest/gtest.h>

#include <chrono>
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

namespace lockstep {
namespace {

using testing::all_reduce;
using testing::on_device;
using testing::run_devices;
using testing::same;

TEST(BackendFailures, AbortsWhereAWaitTimesOut) {
  const auto reports = run_devices(2, [](c10d::ProcessGroup& group) {
    std::string out = "came too late";
    const at::Tensor tensor = on_device(at::ones({2}));
    if (group.getRank() == 0) {
      const auto work = all_reduce(group, tensor);
      try {
        work->wait(std::chrono::milliseconds(30));
      } catch (const c10::Error& error) {
        out = error.what_without_backtrace();
      }
      out += work->isCompleted() && work->exception() ? "; failed" : "; alive";
      try {
        all_reduce(group, tensor);
      } catch (const c10::Error& error) {
        out += std::string("; ") + error.what_without_backtrace();
      }
    }
    // Over the CPU's backend, which is not aborted, the ranks part together.
    group.barrier()->wait();
    return out;
  });
  EXPECT_EQ(reports[0],
            "all-reduce of 2 Float timed out in a blocking wait of 30 ms; its group is aborted; "
            "failed; all-reduce of 2 Float: the group's backend for the simulated accelerator was "
            "aborted");
}

TEST(BackendFailures, EndsWaitsWhereItIsAborted) {
  const auto reports = run_devices(2, [](c10d::ProcessGroup& group) {
    std::string out = "not needed";
    if (group.getRank() == 0) {
      const at::Tensor tensor = on_device(at::ones({2}));
      const auto work = all_reduce(group, tensor);
      out = work->isCompleted() ? "complete, " : "under way, ";
      group.getBackend(c10::DeviceType::PrivateUse1)->abort();
      work->wait();
      try {
        std::rethrow_exception(work->exception());
      } catch (const c10::Error& error) {
        out += error.what_without_backtrace();
      }
    }
    group.barrier()->wait();
    return out;
  });
  EXPECT_EQ(reports, (std::vector<std::string>{
                         "under way, all-reduce of 2 Float was aborted with the group that it "
                         "belongs to",
                         "not needed"}));
}

TEST(BackendFailures, ReportsADeadPeerToARankThatAsksAndNotToOneThatWaitsOnAStream) {
  const auto reports = run_devices(2, [](c10d::ProcessGroup& group) {
    group.barrier()->wait();  // nobody leaves while the other still connects
    if (group.getRank() == 1) return std::string("left");
    const at::Tensor tensor = on_device(at::ones({2}));
    const auto work = all_reduce(group, tensor);
    const bool is_waited = work->wait();
    std::string out = is_waited ? "waited" : "did not";
    out += work->isCompleted() ? ", completed" : ", not completed";
    out += work->isSuccess() ? ", successful" : ", failed";
    try {
      std::rethrow_exception(work->exception());
    } catch (const std::exception&) {
      out += ", says why";
    }
    try {
      work->wait(std::chrono::seconds(10));
    } catch (const std::exception&) {
      out += ", throws with a timeout";
    }
    return out;
  });
  EXPECT_EQ(reports[0], "waited, completed, failed, says why, throws with a timeout");
  EXPECT_EQ(reports[1], "left");
}

// Ended with an exception if it has `why`, and under way for ever without one.
class EndedWork final : public c10d::Work {
 public:
  explicit EndedWork(const char* why) {
    if (why) finish(std::make_exception_ptr(std::runtime_error(why)));
  }
};

// Its first all-reduce succeeds, its second fails, and its later ones wait for ever.
class FailsSecond final : public c10d::Backend {
 public:
  FailsSecond() : c10d::Backend(0, 1) {}
  const std::string getBackendName() const override { return "fails second"; }
  c10::intrusive_ptr<Options> getBackendOptions() override {
    return c10::make_intrusive<Options>("fails second", std::chrono::minutes(1));
  }
  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>&,
                                           const c10d::AllreduceOptions&) override {
    ++issued_;
    if (issued_ == 1) return c10::make_intrusive<DoneWork>();
    return c10::make_intrusive<EndedWork>(issued_ == 2 ? "the peer has left" : nullptr);
  }

 private:
  struct DoneWork final : c10d::Work {
    DoneWork() { finish(); }
  };
  int issued_ = 0;
};

// Peers may wait for each other in collectives that one of them has given up.
TEST(BackendFailures, HoldsUpNoHostBehindACollectiveThatFailed) {
  const auto reports = run_devices(1, [](c10d::ProcessGroup&) {
    const auto backend = make_accelerator_backend(c10::make_intrusive<FailsSecond>());
    std::vector<c10::intrusive_ptr<c10d::Work>> works;
    const at::Tensor all = on_device(at::ones({8}));
    for (const at::Tensor& each : all.split(2)) {
      std::vector<at::Tensor> tensors{each};
      works.push_back(backend->allreduce(tensors));
    }
    std::string out;
    for (const auto& each : works) out += each->wait() ? "waited, " : "not waited, ";
    for (const auto& each : works)
      out += !each->isCompleted() ? "under way, " : each->isSuccess() ? "succeeded, " : "failed, ";
    return out + std::to_string(all.cpu().numel());
  });
  EXPECT_EQ(reports[0],
            "waited, waited, waited, waited, succeeded, failed, under way, under way, 8");
}

// A training issues millions, and each knows the one before it.
TEST(BackendFailures, KeepsNoCollectiveThatHasSucceeded) {
  struct DoneWork final : c10d::Work {
    DoneWork() { finish(); }
  };
  std::shared_ptr<accelerator::InnerWork> latest;
  std::weak_ptr<accelerator::InnerWork> first;
  for (int i = 0; i < 3; ++i) {
    latest = std::make_shared<accelerator::InnerWork>(c10::make_intrusive<DoneWork>(), latest);
    if (i == 0) first = latest;
  }
  EXPECT_TRUE(first.expired());
}

std::string refusal(const std::function<void()>& act) {
  try {
    act();
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
  return "accepted";
}

TEST(BackendFailures, RefusesWhatItDoesNotCarry) {
  const auto reports = run_devices(1, [](c10d::ProcessGroup& group) {
    const auto backend = group.getBackend(c10::DeviceType::PrivateUse1);
    std::vector<at::Tensor> on_cpu{at::ones({2})};
    std::vector<at::Tensor> gapped{on_device(at::ones({4, 4})).select(1, 0)};
    std::vector<at::Tensor> two{on_device(at::ones({1})), on_device(at::ones({1}))};
    std::vector<std::vector<at::Tensor>> lists;
    return refusal([&] { backend->allreduce(on_cpu); }) + "\n" +
           refusal([&] { backend->allreduce(gapped); }) + "\n" +
           refusal([&] { backend->allreduce(two); }) + "\n" +
           refusal([&] { backend->gather(lists, two); }) + "\n" +
           refusal([&] { backend->_reduce_scatter_base(two[0], two[1]); });
  });
  EXPECT_EQ(reports,
            same(1,
                 "all-reduce of 2 Float by the backend of the simulated accelerator: tensors must "
                 "be dense and on the accelerator, got one of Strided on cpu\n"
                 "all-reduce of 4 Float: tensors must be contiguous\n"
                 "collectives on the simulated accelerator take one tensor, got 2\n"
                 "Backend accelerator does not support gather\n"
                 "Backend accelerator does not support _reduce_scatter_base"));
}

}  // namespace
}  // namespace lockstep
