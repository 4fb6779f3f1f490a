#pragma once

#include "ddp/data_parallel_core.h"
#include "ddp/join.h"
#include "ddp/options.h"
#include "ddp/outputs.h"

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
    constexpr bool outputs_are_known = KnownOutput<Result>;
    core_->before_forward(outputs_are_known, typeid(Result));
    if constexpr (std::is_void_v<Result>) {
      guarded([&] { module->forward(std::forward<Args>(args)...); });
      core_->after_forward(std::nullopt);
    } else {
      decltype(auto) result =
          guarded([&]() -> Result { return module->forward(std::forward<Args>(args)...); });
      core_->after_forward(tensors_in(result));
      if constexpr (std::is_reference_v<Result>) {
        return static_cast<Result>(result);
      } else {
        return result;
      }
    }
  }

  [[nodiscard]] NoSyncGuard no_sync() { return NoSyncGuard(core_); }
  [[nodiscard]] Join join(const JoinOptions& options = {}) { return Join(core_, options); }

  // The buckets in launch order. They change once, at the second synchronised forward, but never
  // with find_unused_parameters alone. Gradients are numbered as the parameters that required one
  // at construction and are not ignored, in the order of parameters(). Local.
  BucketPlan bucket_plan() const { return core_->bucket_plan(); }

  // What is known of this object on this rank. Local.
  LoggingData logging_data() const { return core_->logging_data(); }

  // Times one synchronised step in `sample_rate`, at least 1 (else UsageError), after the first ten
  // that are always timed. Unset: 100. Local.
  void set_runtime_logging_sample_rate(int sample_rate) {
    core_->set_runtime_logging_sample_rate(sample_rate);
  }

  // Throws UnfinishedReductionError if the last synchronised backward pass did not finish, where
  // the next forward would. Local. On a device over NCCL it waits for the device, and so hears of
  // a peer's pass that went wrong, of which forwards hear one later: before a checkpoint is
  // written, say.
  void check_reduction_finished() const { core_->check_reduction_finished(); }

  // No backward pass is heard any more, and forwards that would be synchronised throw UsageError:
  // before the module is wrapped in something else while this object lives. Local.
  void remove_autograd_hooks() { core_->remove_autograd_hooks(); }

  // Goes on with other ranks, or after a failure (`group` may be the one it had): compares with the
  // ranks of `group` as the construction did, and begins anew (buckets, static graph, hooks).
  // Parameters and gradients stay as they are; making replicas equal is the caller's. Collective
  // over `group`; blocks; throws as the construction. No backward pass may be under way.
  void update_process_group(c10::intrusive_ptr<c10d::ProcessGroup> group) {
    core_->update_process_group(std::move(group));
  }

  // This rank cannot go on: the waits of its peers in this object's collectives end with a
  // CommunicationError that tells `sentence`. An exception in forward or in DDP itself is told
  // without it, and one that unwinds this object too, though not in its own words:
  //
  //   try { train(ddp); } catch (const std::exception& e) { ddp->report_failure(e.what()); throw; }
  //
  // Local; needs a group with a store.
  void report_failure(const std::string& sentence) { core_->report_failure(sentence); }

  const std::shared_ptr<M> module;

 private:
  template <class Call>
  decltype(auto) guarded(const Call& call) {
    try {
      return call();
    } catch (const std::exception& error) {
      core_->forward_threw(error.what());
      throw;
    } catch (...) {
      core_->forward_threw("something that is no std::exception");
      throw;
    }
  }

  template <class Result>
  std::optional<std::vector<at::Tensor>> tensors_in(const Result& result) const {
    if constexpr (KnownOutput<Result>) {
      std::vector<at::Tensor> tensors;
      if (!core_->looks_at_outputs()) return tensors;
      for_each_tensor(result, [&](const at::Tensor& each) {
        if (each.defined()) tensors.push_back(each);
      });
      return tensors;
    } else {
      return std::nullopt;
    }
  }

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
// Every trainable parameter must get a gradient in every synchronised backward pass, on every rank,
// unless find_unused_parameters or static_graph says otherwise; gradients are of the
// parameter's dtype (float32, float64, float16, bfloat16, complex64, complex128), dense but for the
// weights of Embedding and EmbeddingBag with sparse=true. A gradient is multiplied by 1/W, rounded
// to its dtype, and then summed. autograd::grad() is not synchronised, nor are graphs of gradients.
// A world of one takes the same path. Several objects may live on one group, which then each get a
// part of it of their own.
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
  // local: docs/semantics.md 1.3) and once when the buckets are laid out anew; Local
  // otherwise, but for a join. The backward passes through its
  // output are Collective, unless the forward was inside no_sync() or without gradients.
  //
  // Throws UsageError if a parameter or buffer was frozen, unfrozen, converted or reshaped since
  // the construction, UnfinishedReductionError after a failure, CommunicationError, and, in a join,
  // UnevenInputsError. backward() itself throws UnfinishedReductionError, on every rank, if any
  // rank's pass lacked a gradient or threw (a rank whose own pass threw gets that exception);
  // UsageError if a gradient that should be a view of its bucket was replaced; and
  // CommunicationError.
  template <class... Args>
  decltype(auto) forward(Args&&... args) {
    return this->get()->forward(std::forward<Args>(args)...);
  }

  // While the guard lives, forwards make their backward passes local: gradients add up in .grad,
  // and the first synchronised pass after it averages the sum. Decided at forward, not at backward.
  // Local; guards nest.
  [[nodiscard]] NoSyncGuard no_sync() { return this->get()->no_sync(); }

  // From here to its finish() ranks may run out of inputs at different steps: all are told, or
  // those who have none stand in for themselves (see Join). Collective; blocks: ranks compare the
  // options. Throws DisagreementError, on all ranks, if options differ, are of no use, or a join of
  // this object is under way; UnfinishedReductionError after a failure, and CommunicationError.
  [[nodiscard]] Join join(const JoinOptions& options = {}) { return this->get()->join(options); }
};

template <class M>
DistributedDataParallel(std::shared_ptr<M>, DistributedDataParallelOptions)
    -> DistributedDataParallel<M>;
template <class M>
DistributedDataParallel(const torch::nn::ModuleHolder<M>&, DistributedDataParallelOptions)
    -> DistributedDataParallel<M>;

}  // namespace lockstep
