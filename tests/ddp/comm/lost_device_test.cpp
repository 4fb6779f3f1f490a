// A device that is lost while collectives are under way. LibTorch's Work then ends the process
// where it is destroyed; Note [The Work of a lost device] in ddp/comm/communicator.cpp.
#include "ddp/comm/communicator.h"
#include "ddp/distributed_data_parallel.h"
#include "ddp/errors.h"
#include "harness/accelerator/accelerator.h"
#include "tests/ddp/devices.h"
#include "tests/ddp/modules.h"

#include <c10/util/Exception.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

namespace lockstep {
namespace {

using testing::Group;
using testing::run_on_devices;
using testing::same;
using testing::Terms;
using Loss = testing::TermsImpl::Loss;

constexpr auto kDevice = c10::DeviceType::PrivateUse1;

// The device of this process. Once it is lost every call throws; while it is busy nothing on it is
// over.
struct Device {
  bool is_lost = false;
  bool is_busy = false;
  void call() const {
    if (is_lost) throw c10::AcceleratorError({__func__, __FILE__, __LINE__}, 700, "device is lost");
  }
};

// As WorkNCCL: every query calls the device, and so does the destructor, which may not throw.
class FragileWork final : public c10d::Work {
 public:
  FragileWork(c10::intrusive_ptr<c10d::Work> work, const Device& device)
      : work_(std::move(work)), device_(device) {}
  ~FragileWork() override { device_.call(); }

  bool isCompleted() override {
    device_.call();
    return !device_.is_busy && work_->isCompleted();
  }
  bool wait(std::chrono::milliseconds timeout) override {
    device_.call();
    return work_->wait(timeout);
  }
  std::exception_ptr exception() const override { return work_->exception(); }

 private:
  const c10::intrusive_ptr<c10d::Work> work_;
  const Device& device_;
};

class FragileBackend final : public c10d::Backend {
 public:
  FragileBackend(c10::intrusive_ptr<c10d::Backend> backend, const Device& device)
      : Backend(backend->getRank(), backend->getSize()),
        backend_(std::move(backend)),
        device_(device) {}

  const std::string getBackendName() const override { return backend_->getBackendName(); }
  c10::intrusive_ptr<Options> getBackendOptions() override { return backend_->getBackendOptions(); }
  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>& tensors,
                                           const c10d::AllreduceOptions& options) override {
    return c10::make_intrusive<FragileWork>(backend_->allreduce(tensors, options), device_);
  }
  c10::intrusive_ptr<c10d::Work> broadcast(std::vector<at::Tensor>& tensors,
                                           const c10d::BroadcastOptions& options) override {
    return c10::make_intrusive<FragileWork>(backend_->broadcast(tensors, options), device_);
  }
  void abort() override { backend_->abort(); }

 private:
  const c10::intrusive_ptr<c10d::Backend> backend_;
  const Device& device_;
};

// A group with the CPU's backend of `group`, and its backend for devices on a device that can be
// lost.
Group fragile(const Group& group, const Device& device) {
  auto made = c10::make_intrusive<c10d::ProcessGroup>(group->getStore(), group->getRank(),
                                                      group->getSize());
  made->setBackend(c10::DeviceType::CPU, c10d::ProcessGroup::BackendType::GLOO,
                   group->getBackend(c10::DeviceType::CPU));
  made->setBackend(kDevice, c10d::ProcessGroup::BackendType::CUSTOM,
                   c10::make_intrusive<FragileBackend>(group->getBackend(kDevice), device));
  return made;
}

std::string what_is_thrown(const std::function<void()>& act) {
  try {
    act();
  } catch (const std::exception& error) {
    return first_line(error);
  }
  return "nothing";
}

TEST(LostDevice, IsAnErrorOfOperationsUnderWayAndEndsNoProcess) {
  const auto reports = run_on_devices(1, [](const Group& group) {
    Device device{.is_busy = true};
    Communicator communicator(fragile(group, device), std::nullopt);
    const at::Tensor tensor = torch::ones({2}, accelerator_device());
    for (const std::string name : {"first sum", "second sum"}) {
      Operation sum = communicator.start_sum(tensor, name);
      communicator.wait(sum);
    }
    device.is_lost = true;
    const std::string thrown = what_is_thrown([&] { communicator.look_at_what_is_under_way(); });
    return thrown.substr(0, thrown.find(" after ")) + thrown.substr(thrown.find_last_of(':'));
  });
  EXPECT_EQ(reports, same(1,
                          "rank 0: first sum (collective 0 of this instance) failed: device is "
                          "lost"));
}

TEST(LostDevice, InTheMiddleOfABackwardIsItsErrorAndEndsNoProcess) {
  const auto reports = run_on_devices(1, [](const Group& group) {
    Device device;
    Terms net(3);
    net->to(accelerator_device());
    std::string thrown;
    {
      DistributedDataParallel ddp(
          net, {.process_group = fragile(group, device), .bucket_cap_mb_list = {0.0}});
      const auto loss = ddp.forward(Loss{{0, 1.0}, {1, 2.0}, {2, 3.0}});
      net->weights[0].register_hook([&](const at::Tensor&) { device.is_lost = true; });
      thrown = what_is_thrown([&] { loss.backward(); });
    }
    return thrown.substr(thrown.rfind(": "));
  });
  EXPECT_EQ(reports, same(1, ": device is lost"));
}

}  // namespace
}  // namespace lockstep
