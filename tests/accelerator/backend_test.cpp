#include "harness/accelerator/backend.h"

#include "tests/accelerator/worlds.h"

#include <c10/core/StreamGuard.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <string>
#include <vector>

namespace lockstep {
namespace {

using testing::all_reduce;
using testing::broadcast;
using testing::numbers;
using testing::on_device;
using testing::run_devices;
using testing::same;
using testing::with_hazards;

std::string every_collective(c10d::ProcessGroup& group) {
  const int size = group.getSize();
  const at::Tensor mine = on_device(at::tensor({1.0, 2.0}) + group.getRank());
  const at::Tensor sum = mine.clone();
  all_reduce(group, sum)->wait();
  const at::Tensor first = mine.clone();
  broadcast(group, first)->wait();
  at::Tensor all = at::empty({size, 2}, mine.options());
  at::Tensor flat = all.view({-1});
  at::Tensor row = mine.clone();
  group._allgather_base(flat, row)->wait();
  std::vector<std::vector<at::Tensor>> lists{{}};
  for (int rank = 0; rank < size; ++rank) lists[0].push_back(at::empty_like(mine));
  std::vector<at::Tensor> inputs{mine};
  group.allgather(lists, inputs)->wait();
  return with_hazards(numbers(sum.cpu()) + " | " + numbers(first.cpu()) + " | " +
                      numbers(all.cpu()) + " | " + numbers(at::cat(lists[0]).cpu()));
}

TEST(Backend, CarriesWhatTheInnerOneCarries) {
  EXPECT_EQ(run_devices(1, every_collective), same(1, "1 2 | 1 2 | 1 2 | 1 2"));
  EXPECT_EQ(run_devices(2, every_collective), same(2, "3 5 | 1 2 | 1 2 2 3 | 1 2 2 3"));
  EXPECT_EQ(run_devices(3, every_collective), same(3, "6 9 | 1 2 | 1 2 2 3 3 4 | 1 2 2 3 3 4"));
}

TEST(Backend, LeavesTensorsOfTheCpuToTheirOwn) {
  const auto reports = run_devices(2, [](c10d::ProcessGroup& group) {
    const at::Tensor here = at::ones({2});
    const at::Tensor there = on_device(here, 1);
    const auto one = all_reduce(group, there);
    const auto other = all_reduce(group, here);
    other->wait();
    one->wait();
    return with_hazards(numbers(here) + " " + numbers(there.cpu()));
  });
  EXPECT_EQ(reports, same(2, "2 2 2 2"));
}

TEST(Backend, WaitsOnStreamsAndNeverHoldsUpTheHost) {
  const auto reports = run_devices(2, [](c10d::ProcessGroup& group) {
    const at::Tensor tensor = on_device(at::ones({4}));
    const std::size_t before = host_wait_count();
    for (int step = 0; step < 3; ++step) {
      tensor.mul_(2);
      all_reduce(group, tensor)->wait();
      tensor.add_(1);
    }
    return with_hazards(std::to_string(host_wait_count() - before) + ": " + numbers(tensor.cpu()));
  });
  EXPECT_EQ(reports, same(2, "0: 85 85 85 85"));
}

TEST(Backend, FindsWhoDoesNotWait) {
  const auto reports = run_devices(2, [](c10d::ProcessGroup& group) {
    const at::Tensor tensor = on_device(at::ones({4}));
    const auto work = all_reduce(group, tensor);
    const at::Tensor used = tensor.add(1);
    work->wait();
    return with_hazards("");
  });
  EXPECT_EQ(reports, same(2,
                          "\nadd on stream 0 of device 0 reads 16 bytes that all-reduce of 4 Float "
                          "on stream 33 of device 0 wrote, and nothing makes stream 0 of device 0 "
                          "wait for it"));
}

TEST(Backend, FindsWhatIsPackedOnAStreamThatNobodyWaitsFor) {
  const auto reports = run_devices(2, [](c10d::ProcessGroup& group) {
    const at::Tensor tensor = on_device(at::ones({4}));
    const c10::impl::VirtualGuardImpl devices(c10::DeviceType::PrivateUse1);
    const c10::Stream side = devices.getStreamFromGlobalPool(tensor.device());
    c10::Event ready(c10::DeviceType::PrivateUse1);
    ready.record(devices.getStream(tensor.device()));
    ready.block(side);
    {
      const c10::StreamGuard guard(side);
      tensor.mul_(2);
    }
    all_reduce(group, tensor)->wait();
    return with_hazards("");
  });
  EXPECT_EQ(reports,
            same(2,
                 "\nall-reduce of 4 Float on stream 33 of device 0 writes 16 bytes that mul on "
                 "stream 1 of device 0 writes, and nothing makes stream 33 of device 0 wait for "
                 "it"));
}

TEST(Backend, FindsWhoWritesWhatItStillReads) {
  const auto reports = run_devices(2, [](c10d::ProcessGroup& group) {
    at::Tensor mine = on_device(at::ones({2}));
    at::Tensor all = at::empty({4}, mine.options());
    const auto work = group._allgather_base(all, mine);
    mine.zero_();
    work->wait();
    return with_hazards("");
  });
  EXPECT_EQ(reports,
            same(2,
                 "\nzero_ on stream 0 of device 0 writes 8 bytes that all-gather of 2 Float "
                 "on stream 33 of device 0 reads, and nothing makes stream 0 of device 0 "
                 "wait for it"));
}

TEST(Backend, MisorderedOnPurposeIsFound) {
  const auto program = [](c10d::ProcessGroup& group) {
    const at::Tensor tensor = on_device(at::zeros({4})).fill_(1);
    all_reduce(group, tensor)->wait();
    return with_hazards(numbers(tensor.cpu()));
  };
  const std::string waits = ", and nothing makes stream ";
  EXPECT_EQ(run_devices(2, program), same(2, "2 2 2 2"));
  EXPECT_EQ(run_devices(2, program, Misorder::kEntry),
            same(2,
                 "2 2 2 2\nall-reduce of 4 Float on stream 33 of device 0 writes 16 bytes that "
                 "fill_ on stream 0 of device 0 writes" +
                     waits + "33 of device 0 wait for it"));
  EXPECT_EQ(run_devices(2, program, Misorder::kExit),
            same(2,
                 "2 2 2 2\ncopy_ on stream 0 of device 0 reads 16 bytes that all-reduce of 4 "
                 "Float on stream 33 of device 0 wrote" +
                     waits + "0 of device 0 wait for it"));
}

TEST(Backend, KeepsTensorsWhoseWorkNobodyWaitsFor) {
  const auto reports = run_devices(2, [](c10d::ProcessGroup& group) {
    for (int step = 0; step < 5; ++step) all_reduce(group, on_device(at::ones({1000})));
    const at::Tensor last = on_device(at::ones({1}));
    all_reduce(group, last)->wait();
    return with_hazards(numbers(last.cpu()));
  });
  EXPECT_EQ(reports, same(2, "2"));
}

TEST(Backend, PutsCollectivesOnOneTensorInOrder) {
  const auto reports = run_devices(3, [](c10d::ProcessGroup& group) {
    const at::Tensor tensor = on_device(at::full({100000}, group.getRank() + 1.0));
    const auto one = all_reduce(group, tensor);
    const auto other = all_reduce(group, tensor);
    const auto last = broadcast(group, tensor);
    last->wait();
    return with_hazards(numbers(tensor.slice(0, 0, 2).cpu()));
  });
  EXPECT_EQ(reports, same(3, "18 18"));
}

TEST(Backend, RunsOnTheCurrentStreamIfNotAsynchronous) {
  const auto reports = run_devices(2, [](c10d::ProcessGroup& group) {
    std::vector<at::Tensor> tensors{on_device(at::ones({2}))};
    c10d::AllreduceOptions options;
    options.asyncOp = false;
    group.allreduce(tensors, options);
    return with_hazards(numbers(tensors[0].add(1).cpu()));
  });
  EXPECT_EQ(reports, same(2, "3 3"));
}

TEST(Backend, HoldsUpTheHostInABarrierAndInAWaitWithATimeout) {
  const auto reports = run_devices(2, [](c10d::ProcessGroup& group) {
    const at::Tensor tensor = on_device(at::ones({2}));
    const std::size_t before = host_wait_count();
    all_reduce(group, tensor)->wait(std::chrono::seconds(10));
    c10d::BarrierOptions options;
    options.device = accelerator_device(0);
    group.barrier(options)->wait();
    std::string out = numbers(tensor.cpu());
    for (const std::string& each : host_waits(before)) out += "\n" + each;
    return out;
  });
  EXPECT_EQ(reports, same(2,
                          "2 2\nwait for all-reduce of 2 Float with a timeout\nbarrier\n"
                          "blocking copy to the host"));
}

TEST(Backend, IsCompleteForAHostThatSeesIt) {
  const auto reports = run_devices(2, [](c10d::ProcessGroup& group) {
    const at::Tensor tensor = on_device(at::ones({2}));
    const auto work = all_reduce(group, tensor);
    while (!work->isCompleted()) std::this_thread::yield();
    return with_hazards(numbers(tensor.add(1).cpu()));
  });
  EXPECT_EQ(reports, same(2, "3 3"));
}

TEST(Backend, CanBeSplitIntoPartsOfItsRanks) {
  const auto reports = run_devices(3, [](c10d::ProcessGroup& group) -> std::string {
    const auto pair = group.splitGroup({0, 2}, std::nullopt, std::nullopt, "pair", "pair");
    if (!pair) return "apart";
    const at::Tensor tensor = on_device(at::full({2}, group.getRank() + 1.0));
    const at::Tensor here = at::ones({1});
    all_reduce(*pair, tensor)->wait();
    all_reduce(*pair, here)->wait();
    return with_hazards(numbers(tensor.cpu()) + " " + numbers(here));
  });
  EXPECT_EQ(reports, (std::vector<std::string>{"4 4 2", "apart", "4 4 2"}));
}

TEST(Backend, ServesAGroupThatHasNoOther) {
  const auto reports = run_devices(2, [](c10d::ProcessGroup& group) {
    const auto custom = c10d::ProcessGroup::BackendType::CUSTOM;
    const auto alone =
        c10::make_intrusive<c10d::ProcessGroup>(group.getStore(), group.getRank(), group.getSize());
    alone->setBackend(c10::DeviceType::PrivateUse1, custom,
                      make_accelerator_backend(group.getBackend(c10::DeviceType::CPU)));
    alone->setDefaultBackend(custom);
    const auto part = alone->splitGroup({0, 1}, std::nullopt, std::nullopt, "part", "part");
    const at::Tensor tensor = on_device(at::ones({2}));
    all_reduce(*part, tensor)->wait();
    all_reduce(*alone, tensor)->wait();
    return with_hazards(numbers(tensor.cpu()));
  });
  EXPECT_EQ(reports, same(2, "4 4"));
}

TEST(Backend, GivesAFutureThatWaitsOnStreams) {
  const auto reports = run_devices(2, [](c10d::ProcessGroup& group) {
    const at::Tensor tensor = on_device(at::ones({2}));
    const auto future = all_reduce(group, tensor)->getFuture();
    future->wait();
    return with_hazards(numbers(future->value().toTensorVector()[0].add(1).cpu()));
  });
  EXPECT_EQ(reports, same(2, "3 3"));
}

}  // namespace
}  // namespace lockstep
