#pragma once

#include "ddp/data_parallel_core.h"
#include "ddp/options.h"

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <memory>
#include <type_traits>
#include <utility>

namespace lockstep {

// The module behind a DistributedDataParallel handle. It holds the wrapped module as its child
// `module`, so archives and named_parameters() have keys that begin with "module.".
template <class M>
class DistributedDataParallelImpl : public torch::nn::Module {
 public:
  DistributedDataParallelImpl(std::shared_ptr<M> wrapped, DistributedDataParallelOptions options)
      : module(this->register_module("module", std::move(wrapped))),
        core_(DataParallelCore::create(module, std::move(options))) {}

  // See DistributedDataParallel::forward.
  template <class... Args>
  decltype(auto) forward(Args&&... args) {
    using Result = decltype(module->forward(std::forward<Args>(args)...));
    core_->before_forward();
    if constexpr (std::is_void_v<Result>) {
      module->forward(std::forward<Args>(args)...);
      core_->after_forward();
    } else {
      Result result = module->forward(std::forward<Args>(args)...);
      core_->after_forward();
      if constexpr (std::is_reference_v<Result>) {
        return static_cast<Result>(result);
      } else {
        return result;
      }
    }
  }

  [[nodiscard]] NoSyncGuard no_sync() { return NoSyncGuard(core_); }

  // The buckets in launch order. They change once, at the second synchronised forward. Gradients
  // are numbered as the parameters that required one at construction, in the order of parameters().
  // Local.
  BucketPlan bucket_plan() const { return core_->bucket_plan(); }

  const std::shared_ptr<M> module;

 private:
  const std::shared_ptr<DataParallelCore> core_;
};

// Data-parallel training of a LibTorch module: W processes hold equal copies, each runs its own
// part of the batch, and when backward() returns every copy's .grad is the average over the W
// ranks. So equal copies with equal optimizers stay equal, and the mean of a loss over the global
// batch is what is minimised, if all ranks' batches are equally large.
//
//   DistributedDataParallel ddp(net, {.process_group = group});  // a shared_ptr, or a holder
//   ddp.forward(input).mean().backward();                        // gradients are averages now
//
// A handle is a value: copies share one module, as LibTorch's holders do, and everything a holder
// can do (->, register_module, torch::save) works. The wrapped module is shared, not copied.
//
// Every trainable parameter must get a gradient in every synchronised backward pass, on every rank;
// gradients are dense and of the parameter's dtype (float32, float64, float16, bfloat16), on the
// CPU. A gradient is multiplied by 1/W, rounded to its dtype, and then summed. autograd::grad() and
// higher derivatives are not synchronised. A world of one takes the same path.
//
// Sources: torch.nn.parallel.DistributedDataParallel; Li et al., VLDB 2020; docs/semantics.md 0
// to 2.
template <class M>
class DistributedDataParallel : public torch::nn::ModuleHolder<DistributedDataParallelImpl<M>> {
 public:
  using Holder = torch::nn::ModuleHolder<DistributedDataParallelImpl<M>>;

  // An empty handle.
  DistributedDataParallel(std::nullptr_t)
      : Holder(nullptr) {}  // NOLINT(google-explicit-constructor)

  // Collective; blocks. All ranks compare parameters, buffers and options; then (`init_sync`) every
  // parameter and buffer, frozen ones too, becomes group rank 0's. Throws UsageError without a
  // module or process group, DisagreementError with one sentence on all ranks for anything else
  // that is wrong on any of them, and CommunicationError.
  DistributedDataParallel(std::shared_ptr<M> module, DistributedDataParallelOptions options)
      : Holder(std::make_shared<DistributedDataParallelImpl<M>>(std::move(module),
                                                                std::move(options))) {}
  DistributedDataParallel(const torch::nn::ModuleHolder<M>& module,
                          DistributedDataParallelOptions options)
      : DistributedDataParallel(module.ptr(), std::move(options)) {}

  // Calls the module's forward with the same arguments and returns what it returns. Collective, and
  // blocks, when buffers are synchronised (before the module runs, unless the forward before was
  // local: docs/semantics.md 1.3) and once when the buckets are laid out anew; Local otherwise. The
  // backward passes that follow are Collective, unless the forward was inside no_sync() or without
  // gradients. Throws UnfinishedReductionError if a backward pass was cut off, UsageError if the
  // parameters are not those of the construction, and CommunicationError. backward() itself throws
  // UnfinishedReductionError or CommunicationError.
  template <class... Args>
  decltype(auto) forward(Args&&... args) {
    return this->get()->forward(std::forward<Args>(args)...);
  }

  // While the guard lives, forwards make their backward passes local: gradients add up in .grad,
  // and the first synchronised pass after it averages the sum. Decided at forward, not at backward.
  // Local; guards nest.
  [[nodiscard]] NoSyncGuard no_sync() { return this->get()->no_sync(); }
};

template <class M>
DistributedDataParallel(std::shared_ptr<M>, DistributedDataParallelOptions)
    -> DistributedDataParallel<M>;
template <class M>
DistributedDataParallel(const torch::nn::ModuleHolder<M>&, DistributedDataParallelOptions)
    -> DistributedDataParallel<M>;

}  // namespace lockstep
