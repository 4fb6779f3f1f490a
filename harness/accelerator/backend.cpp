#include "harness/accelerator/backend.h"

#include "harness/accelerator/aliases.h"
#include "harness/accelerator/devices.h"
#include "harness/accelerator/ledger.h"
#include "harness/accelerator/work.h"

#include <ATen/Functions.h>
#include <c10/core/DeviceGuard.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <algorithm>
#include <map>
#include <mutex>
#include <numeric>
#include <optional>
#include <utility>

namespace lockstep {

namespace {

namespace acc = accelerator;
using Tensors = std::vector<at::Tensor>;
using c10d::OpType;

// The description of one collective before it is issued.
struct Collective {
  OpType type = OpType::UNKNOWN;
  std::string name;
  Tensors reads, writes;
  bool is_async = true;
};

std::string size_of(const at::Tensor& tensor) {
  return " of " + std::to_string(tensor.numel()) + " " + c10::toString(tensor.scalar_type());
}

bool touch_each_other(const std::vector<acc::Access>& some,
                      const std::vector<acc::Access>& others) {
  return std::any_of(some.begin(), some.end(), [&](const acc::Access& one) {
    return std::any_of(others.begin(), others.end(), [&](const acc::Access& other) {
      return one.begin < other.end && other.begin < one.end;
    });
  });
}

class AcceleratorBackend final : public c10d::Backend {
 public:
  AcceleratorBackend(c10::intrusive_ptr<c10d::Backend> inner, Misorder misorder)
      : c10d::Backend(inner->getRank(), inner->getSize()),
        inner_(std::move(inner)),
        misorder_(misorder),
        options_(c10::make_intrusive<Options>("accelerator", timeout_of(*inner_))) {}

  const std::string getBackendName() const override { return "accelerator"; }
  c10::intrusive_ptr<Options> getBackendOptions() override { return options_; }
  bool supportsSplitting() const override { return inner_->supportsSplitting(); }
  void setTimeout(std::chrono::milliseconds timeout) override {
    options_->timeout = timeout;
    inner_->setTimeout(timeout);
  }
  void abort() override {
    *is_aborted_ = true;
    inner_->abort();
  }
  void shutdown() override { inner_->shutdown(); }

  c10::intrusive_ptr<c10d::Work> allreduce(Tensors& tensors,
                                           const c10d::AllreduceOptions& options) override {
    return issue({.type = OpType::ALLREDUCE,
                  .name = "all-reduce" + size_of(only(tensors)),
                  .reads = {},
                  .writes = tensors,
                  .is_async = options.asyncOp},
                 [&](Tensors&, Tensors& on_cpu) { return inner_->allreduce(on_cpu, options); });
  }

  c10::intrusive_ptr<c10d::Work> broadcast(Tensors& tensors,
                                           const c10d::BroadcastOptions& options) override {
    const bool is_root = options.rootRank == rank_;
    return issue({.type = OpType::BROADCAST,
                  .name = "broadcast" + size_of(only(tensors)),
                  .reads = is_root ? tensors : Tensors(),
                  .writes = is_root ? Tensors() : tensors,
                  .is_async = options.asyncOp},
                 [&](Tensors& read, Tensors& written) {
                   return inner_->broadcast(is_root ? read : written, options);
                 });
  }

  c10::intrusive_ptr<c10d::Work> _allgather_base(at::Tensor& output, at::Tensor& input,
                                                 const c10d::AllgatherOptions& options) override {
    return issue({.type = OpType::_ALLGATHER_BASE,
                  .name = "all-gather" + size_of(input),
                  .reads = {input},
                  .writes = {output},
                  .is_async = options.asyncOp},
                 [&](Tensors& read, Tensors& written) {
                   return inner_->_allgather_base(written[0], read[0], options);
                 });
  }

  c10::intrusive_ptr<c10d::Work> allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                                           const c10d::AllgatherOptions& options) override {
    TORCH_CHECK(outputs.size() == 1, "all-gather on the simulated accelerator takes one list of ",
                "outputs, got ", outputs.size());
    return issue({.type = OpType::ALLGATHER,
                  .name = "all-gather" + size_of(only(inputs)),
                  .reads = inputs,
                  .writes = outputs[0],
                  .is_async = options.asyncOp},
                 [&](Tensors& read, Tensors& written) {
                   std::vector<Tensors> lists{written};
                   return inner_->allgather(lists, read, options);
                 });
  }

  // As NCCL's: an all-reduce of one number.
  c10::intrusive_ptr<c10d::Work> barrier(const c10d::BarrierOptions& options) override {
    c10::Device device(c10::DeviceType::PrivateUse1, acc::current_stream(-1).device_index());
    if (options.device && options.device->is_privateuseone()) device = *options.device;
    const c10::DeviceGuard guard(device);
    at::Tensor one = at::zeros({1}, at::TensorOptions(at::kFloat).device(device));
    return issue({.type = OpType::BARRIER, .name = "barrier", .reads = {}, .writes = {one}},
                 [&](Tensors&, Tensors& on_cpu) { return inner_->allreduce(on_cpu); });
  }

  c10::intrusive_ptr<c10d::Backend> split(const c10::intrusive_ptr<c10d::Store>& store,
                                          const std::vector<int>& ranks,
                                          const c10::intrusive_ptr<Options>& options) override {
    const auto of_inner = inner_->getBackendOptions();
    of_inner->timeout = options->timeout;
    of_inner->group_name = options->group_name;
    // PyTorch 2.11's Gloo has written a part's ranks into these, if it shares them with the CPU's
    // backend, which was split before; and it reads as many as the whole has.
    auto& known = of_inner->global_ranks_in_group;
    known.resize(static_cast<size_t>(getSize()));
    std::iota(known.begin(), known.end(), 0);
    // A name of its own: the backend for the CPU is split in the same store.
    auto part = inner_->split(c10::make_intrusive<c10d::PrefixStore>("accelerator", store), ranks,
                              of_inner);
    return part ? make_accelerator_backend(std::move(part), misorder_) : nullptr;
  }

 private:
  struct UnderWay {
    std::shared_ptr<acc::InnerWork> inner;
    std::vector<acc::Access> accesses;
  };

  static std::chrono::milliseconds timeout_of(c10d::Backend& inner) {
    return inner.getBackendOptions()->timeout;
  }

  static const at::Tensor& only(const Tensors& tensors) {
    TORCH_CHECK(tensors.size() == 1, "collectives on the simulated accelerator take one tensor, ",
                "got ", tensors.size());
    return tensors.front();
  }

  c10::DeviceIndex device_of(const Collective& collective) const {
    std::optional<c10::DeviceIndex> device;
    for (const Tensors* const list : {&collective.reads, &collective.writes}) {
      for (const at::Tensor& each : *list) {
        TORCH_CHECK(each.device().is_privateuseone() && each.layout() == at::kStrided,
                    collective.name, " by the backend of the simulated accelerator: tensors must ",
                    "be dense and on the accelerator, got one of ", each.layout(), " on ",
                    each.device());
        TORCH_CHECK(each.is_non_overlapping_and_dense(), collective.name,
                    ": tensors must be contiguous");
        TORCH_CHECK(!device || *device == each.get_device(), collective.name,
                    ": tensors must be on one device");
        device = each.get_device();
      }
    }
    return *device;
  }

  c10::Stream own_stream(c10::DeviceIndex device) {
    auto found = streams_.find(device);
    if (found == streams_.end())
      found = streams_.emplace(device, acc::stream_of_its_own(device)).first;
    return found->second;
  }

  // On the stream, collectives run one after the other; on the inner backend's threads they do not,
  // which is noticed where they touch the same memory.
  void finish_those_that_touch(const std::vector<acc::Access>& accesses) {
    std::erase_if(under_way_, [](const UnderWay& each) { return each.inner->is_over(); });
    for (const UnderWay& each : under_way_) {
      if (touch_each_other(each.accesses, accesses))
        each.inner->wait_until_over(
            [&] { return is_aborted_->load() || each.inner->is_behind_a_failure(); }, kNoTimeout);
    }
  }

  template <class Issue>
  c10::intrusive_ptr<c10d::Work> issue(Collective collective, const Issue& on_inner) {
    const std::lock_guard lock(mutex_);
    TORCH_CHECK(!*is_aborted_, collective.name, ": the group's backend for the simulated ",
                "accelerator was aborted");
    const c10::DeviceIndex device = device_of(collective);
    const c10::Stream current = acc::current_stream(device);
    const c10::Stream stream = collective.is_async ? own_stream(device) : current;
    acc::Ledger& ledger = acc::Ledger::instance();
    if (collective.is_async && misorder_ != Misorder::kEntry)
      ledger.wait(stream, ledger.record(current));
    std::vector<acc::Access> accesses;
    for (const at::Tensor& each : collective.reads) add_access(accesses, each, /*writes=*/false);
    for (const at::Tensor& each : collective.writes) add_access(accesses, each, /*writes=*/true);
    ledger.submit(stream, collective.name, accesses);
    finish_those_that_touch(accesses);

    Tensors read, written;
    for (const at::Tensor& each : collective.reads) read.push_back(acc::alias_on_cpu(each));
    for (const at::Tensor& each : collective.writes) written.push_back(acc::alias_on_cpu(each));
    const auto inner = std::make_shared<acc::InnerWork>(on_inner(read, written), latest_);
    latest_ = inner;
    under_way_.push_back({inner, std::move(accesses)});
    const auto give_up = [flag = is_aborted_, inner] {
      return flag->load() || inner->is_behind_a_failure();
    };
    acc::run_in_background(
        stream, {.is_over = [inner, give_up] { return give_up() || inner->is_over(); },
                 .finish = [inner, give_up] { inner->wait_until_over(give_up, kNoTimeout); }});
    c10::Event end(c10::DeviceType::PrivateUse1);
    end.record(stream);
    if (!collective.is_async) acc::finish_background_of(stream);
    Tensors all = collective.reads;
    all.insert(all.end(), collective.writes.begin(), collective.writes.end());
    return c10::make_intrusive<acc::CollectiveWork>(
        rank_, collective.type,
        acc::CollectiveWork::Parts{.inner = inner,
                                   .stream = stream,
                                   .end = std::move(end),
                                   .end_clock = ledger.record(stream),
                                   .device = device,
                                   .outputs = collective.writes,
                                   .tensors = std::move(all),
                                   .name = std::move(collective.name),
                                   .is_aborted = is_aborted_,
                                   .exit_is_ordered = misorder_ != Misorder::kExit});
  }

  c10::intrusive_ptr<c10d::Backend> inner_;
  Misorder misorder_;
  c10::intrusive_ptr<Options> options_;
  std::shared_ptr<std::atomic<bool>> is_aborted_ = std::make_shared<std::atomic<bool>>(false);
  std::mutex mutex_;
  std::map<c10::DeviceIndex, c10::Stream> streams_;
  std::vector<UnderWay> under_way_;
  std::shared_ptr<acc::InnerWork> latest_;
};

}  // namespace

c10::intrusive_ptr<c10d::Backend> make_accelerator_backend(c10::intrusive_ptr<c10d::Backend> inner,
                                                           Misorder misorder) {
  TORCH_CHECK(inner, "make_accelerator_backend: the inner backend is null");
  TORCH_CHECK(acc::device_count() > 0,
              "make_accelerator_backend: call use_simulated_accelerator() first");
  return c10::make_intrusive<AcceleratorBackend>(std::move(inner), misorder);
}

void add_accelerator_backend(c10d::ProcessGroup& group, Misorder misorder) {
  const auto on_cpu = group.getBackend(c10::DeviceType::CPU);
  std::vector<int> ranks(static_cast<std::size_t>(group.getSize()));
  std::iota(ranks.begin(), ranks.end(), 0);
  auto inner =
      on_cpu->split(c10::make_intrusive<c10d::PrefixStore>("accelerator", group.getStore()), ranks,
                    on_cpu->getBackendOptions());
  group.setBackend(c10::DeviceType::PrivateUse1, c10d::ProcessGroup::BackendType::CUSTOM,
                   make_accelerator_backend(std::move(inner), misorder));
}

}  // namespace lockstep
