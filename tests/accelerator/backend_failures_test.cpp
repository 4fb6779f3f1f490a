#include "tests/accelerator/worlds.h"

#include <gtest/gtest.h>

#include <exception>

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

TEST(BackendFailures, TellsOfADeadPeerWhoAsksAndNotWhoWaitsOnAStream) {
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
