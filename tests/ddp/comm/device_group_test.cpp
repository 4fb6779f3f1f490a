// A group that carries tensors of devices alone, and is bound to none of them.
#include "ddp/distributed_data_parallel.h"
#include "ddp/sync_batch_norm.h"
#include "harness/accelerator/accelerator.h"
#include "tests/ddp/devices.h"
#include "tests/ddp/modules.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <set>
#include <unistd.h>

namespace lockstep {
namespace {

using testing::forgotten;
using testing::Group;
using testing::numbers;
using testing::run_on_devices;
using testing::same;
using testing::Terms;
using Loss = testing::TermsImpl::Loss;

// Notes by which devices tensors travel, and can die of one.
class Witness final : public c10d::Backend {
 public:
  explicit Witness(c10::intrusive_ptr<c10d::Backend> backend)
      : Backend(backend->getRank(), backend->getSize()), backend_(std::move(backend)) {}

  const std::string getBackendName() const override { return backend_->getBackendName(); }
  c10::intrusive_ptr<Options> getBackendOptions() override { return backend_->getBackendOptions(); }
  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>& tensors,
                                           const c10d::AllreduceOptions& options) override {
    saw.insert(tensors.front().device().str());
    return backend_->allreduce(tensors, options);
  }
  c10::intrusive_ptr<c10d::Work> broadcast(std::vector<at::Tensor>& tensors,
                                           const c10d::BroadcastOptions& options) override {
    saw.insert(tensors.front().device().str());
    if (dies_at_broadcast) ::_exit(9);
    return backend_->broadcast(tensors, options);
  }
  c10::intrusive_ptr<c10d::Work> _allgather_base(at::Tensor& output, at::Tensor& input,
                                                 const c10d::AllgatherOptions& options) override {
    saw.insert(input.device().str());
    return backend_->_allgather_base(output, input, options);
  }

  std::set<std::string> saw;
  bool dies_at_broadcast = false;

 private:
  const c10::intrusive_ptr<c10d::Backend> backend_;
};

struct Witnessed {
  c10::intrusive_ptr<Witness> witness;
  Group group;

  explicit Witnessed(const Group& whole)
      : witness(c10::make_intrusive<Witness>(whole->getBackend(c10::DeviceType::PrivateUse1))),
        group(c10::make_intrusive<c10d::ProcessGroup>(whole->getStore(), whole->getRank(),
                                                      whole->getSize())) {
    group->setBackend(c10::DeviceType::PrivateUse1, c10d::ProcessGroup::BackendType::CUSTOM,
                      witness);
  }

  std::string devices() const {
    std::string text;
    for (const auto& each : witness->saw) text += " " + each;
    return text;
  }
};

// The current device is the first one: where all ranks of a host agreed on that, it would be one
// GPU for all of them.
TEST(AGroupOfDevicesAlone, AgreesByTheDeviceOfTheModuleAndNotByTheCurrentOne) {
  const auto reports = run_on_devices(2, [](const Group& whole) {
    const Witnessed alone(whole);
    Terms net(2);
    net->to(accelerator_device(1));
    DistributedDataParallel ddp(net,
                                {.process_group = alone.group, .find_unused_parameters = true});
    for (int step = 0; step < 3; ++step) {
      net->zero_grad();
      ddp.forward(Loss{{0, 2.0}, {1, 4.0}}).backward();
    }
    ddp->check_reduction_finished();
    return numbers(net->weights[0].grad().cpu()) + alone.devices() + forgotten();
  });
  EXPECT_EQ(reports, same(2, "2 2 accelerator:1"));
}

TEST(AGroupOfDevicesAlone, NormalisesByTheDeviceOfTheInput) {
  const auto reports = run_on_devices(2, [](const Group& whole) {
    const Witnessed alone(whole);
    SyncBatchNorm layer(SyncBatchNormOptions{.num_features = 1, .process_group = alone.group});
    layer->to(accelerator_device(1));
    const double own = whole->getRank() == 0 ? -1.0 : 1.0;
    const auto input =
        at::full({2, 1}, own, at::TensorOptions(at::kFloat).device(accelerator_device(1)));
    return numbers(layer->forward(input).detach().cpu().round()) + alone.devices() + forgotten();
  });
  EXPECT_EQ(reports[0], "-1 -1 accelerator:1");
  EXPECT_EQ(reports[1], "1 1 accelerator:1");
}

// Nothing may come after it that would tell, and a stream that waited in vain looks like one that
// did not.
TEST(AGroupOfDevicesAlone, AJoinDoesNotEndWellWhoseLastBroadcastFailed) {
  const auto reports = run_on_devices(2, [](const Group& whole) {
    const Witnessed alone(whole);
    Terms net(1);
    net->to(accelerator_device());
    DistributedDataParallel ddp(net, {.process_group = alone.group});
    auto join = ddp.join();
    ddp.forward(Loss{{0, 2.0}}).backward();
    alone.witness->dies_at_broadcast = whole->getRank() == 1;
    join.finish();
    return std::string("finished");
  });
  EXPECT_NE(reports[0].find("broadcast of the state of the last rank to join"), std::string::npos)
      << reports[0];
}

}  // namespace
}  // namespace lockstep
