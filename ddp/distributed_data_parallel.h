#pragma once

#include "ddp/buffer_hook.h"
#include "ddp/communication_hook.h"
#include "ddp/join.h"
#include "ddp/joinable.h"
#include "ddp/module/core.h"
#include "ddp/options.h"
#include "ddp/outputs.h"

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

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
  [[nodiscard]] Join join(const JoinOptions& options,
                          std::vector<std::shared_ptr<Joinable>> joinables) {
    return Join(core_, options, std::move(joinables));
  }

  // The buckets in launch order. They change once, at the second synchronised forward, but never
  // with find_unused_parameters alone. A gradient's index counts the parameters that required a
  // gradient at construction and are not ignored, in the order of parameters(). Local.
  BucketPlan bucket_plan() const { return core_->bucket_plan(); }

  // A snapshot of this object on this rank. Local.
  LoggingData logging_data() const { return core_->logging_data(); }

  // Times one synchronised step in `sample_rate`, at least 1 (else UsageError), after the first ten
  // that are always timed. Unset: 100. Local.
  void set_runtime_logging_sample_rate(int sample_rate) {
    core_->set_runtime_logging_sample_rate(sample_rate);
  }

  // Throws UnfinishedReductionError, as the next forward would, if the last synchronised backward
  // pass did not finish. Local. On a device over NCCL it waits for the device and so reports a
  // peer's failed pass, which forwards report one forward later: call it before writing a
  // checkpoint, for example.
  void check_reduction_finished() const { core_->check_reduction_finished(); }

  // Backward passes are no longer reduced, and forwards that would be synchronised throw
  // UsageError. Call it before the module is wrapped in something else while this object lives.
  // Local.
  void remove_autograd_hooks() { core_->remove_autograd_hooks(); }

  // Continues with other ranks, or after a failure (`group` may be the one it had): compares the
  // ranks of `group` as the construction did, and resets buckets, static graph and hooks.
  // Parameters and gradients stay unchanged; the caller must make the replicas equal. Collective
  // over `group`; blocks; throws as the construction. No backward pass may be running.
  void update_process_group(c10::intrusive_ptr<c10d::ProcessGroup> group) {
    core_->update_process_group(std::move(group));
  }

  // After parameters were frozen, unfrozen, registered or removed, as in gradual unfreezing: the
  // ranks compare the module as the construction did, and buckets, the static graph and hooks begin
  // anew for those parameters that require a gradient now; ones that were registered since are
  // among them, and making these equal is the caller's. Gradients stay, those of frozen parameters
  // too. Collective; blocks. Throws DisagreementError, on all ranks, if the ranks differ, no
  // parameter is left, one was converted, moved or reshaped, or a join is under way, and the object
  // is as before; UnfinishedReductionError after a failure, and CommunicationError. No backward
  // pass may be under way.
  //
  //   for (auto& each : net->encoder->parameters()) each.set_requires_grad(true);
  //   ddp->update_trainable_parameters();
  //
  void update_trainable_parameters() { core_->update_trainable_parameters(); }

  // From now on `hook` is called for every full bucket in place of the all-reduce: to compress
  // gradients, for example (ddp/communication_hooks.h). Once, before the first synchronised
  // backward pass; the instance shares the hook, also after update_process_group(). Collective;
  // blocks: ranks compare the hooks' descriptions. Throws UsageError for a null hook,
  // DisagreementError, on all ranks, if descriptions differ or a rank has a hook or has had such a
  // pass, and CommunicationError.
  void register_comm_hook(std::shared_ptr<CommunicationHook> hook) {
    core_->register_comm_hook(std::move(hook));
  }

  // From now on `hook` is called in place of the broadcast of buffers, before each forward that
  // would have one, or after it (ddp/buffer_hook.h). Once; the instance shares the hook.
  // Collective; blocks: ranks compare the hooks' descriptions and places. Throws UsageError for a
  // null hook, DisagreementError, on all ranks, if these differ, or a rank has a hook or does not
  // synchronise buffers; UnfinishedReductionError after a failure, and CommunicationError.
  void register_buffer_hook(std::shared_ptr<BufferHook> hook,
                            BufferHookPlace place = BufferHookPlace::before_forward) {
    core_->register_buffer_hook(std::move(hook), place);
  }

  // From now on each synchronised backward pass ends with a step of `optimizer`, which then clears
  // the gradients (to none): when backward() returns, parameters have moved. A pass that fails on
  // any rank moves none, and local passes add up, as without it; on a device the host waits for the
  // pass. On a rank without inputs in a join nothing steps. Once; the instance shares the
  // optimizer. Collective; blocks: ranks compare the optimizers' classes. Throws UsageError for a
  // null optimizer, DisagreementError, on all ranks, if classes differ or a rank has one already;
  // UnfinishedReductionError after a failure, and CommunicationError. An exception of a step comes
  // out of backward() on this rank alone. Source: DistributedDataParallel._register_fused_optim.
  void step_in_backward(std::shared_ptr<torch::optim::Optimizer> optimizer) {
    core_->step_in_backward(std::move(optimizer));
  }

  // Reports that this rank cannot continue: its peers' waits in this object's collectives end with
  // a CommunicationError that contains `sentence`. An exception in forward or in DDP itself is
  // reported automatically; one that unwinds this object is too, though without its message:
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
// ranks. So equal copies with equal optimizers stay equal, and training minimises the average loss
// over the global batch if all ranks' batches are equally large.
//
//   DistributedDataParallel ddp(net, {.process_group = group});  // a shared_ptr, or a holder
//   ddp(input).mean().backward();                                // gradients are averages now
//
// A handle is a value: copies share one module, as LibTorch's holders do, and everything a holder
// can do (->, register_module, torch::save) works. The wrapped module is shared, not copied.
//
// Every trainable parameter must get a gradient in every synchronised backward pass, on every rank,
// unless find_unused_parameters or static_graph says otherwise; gradients have the parameter's
// dtype (float32, float64, float16, bfloat16, complex64, complex128) and are dense, except those of
// Embedding and EmbeddingBag with sparse=true. A gradient is multiplied by 1/W, rounded to its
// dtype, and then summed. autograd::grad() is not synchronised, nor are graphs of gradients. A
// world of one takes the same path. Several objects may share one group; each then gets its own
// split of it.
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

  // The handle of an object that exists, such as one that register_module() returns:
  //
  //   Net() : fc(register_module("fc", Layer(torch::nn::Linear(2, 2), options))) {}
  //
  DistributedDataParallel(std::shared_ptr<DistributedDataParallelImpl<M>> object)
      : Holder(std::move(object)) {}  // NOLINT(google-explicit-constructor)

  // Collective; blocks. All ranks compare parameters, buffers and options; then (`init_sync`) group
  // rank 0 broadcasts every parameter and buffer, frozen ones too. Throws UsageError without a
  // process group, DisagreementError with the same sentence on all ranks for anything else that is
  // wrong on any of them, such as a null module, and CommunicationError.
  DistributedDataParallel(std::shared_ptr<M> module, DistributedDataParallelOptions options)
      : Holder(std::make_shared<DistributedDataParallelImpl<M>>(std::move(module),
                                                                std::move(options))) {}
  DistributedDataParallel(const torch::nn::ModuleHolder<M>& module,
                          DistributedDataParallelOptions options)
      : DistributedDataParallel(module.is_empty() ? nullptr : module.ptr(), std::move(options)) {}

  // Calls the module's forward with the same arguments and returns its result. Collective, and
  // blocks, when buffers are synchronised (before the module runs, unless the previous forward was
  // local: docs/semantics.md 1.3), once when the buckets are rebuilt, and in a join; Local
  // otherwise. Backward passes through its output are Collective, unless the forward was inside
  // no_sync() or without gradients.
  //
  // Throws UsageError if a parameter was frozen, unfrozen, registered or removed since the
  // construction or the last update_trainable_parameters(), or a parameter or buffer converted or
  // reshaped, or a buffer registered or removed,
  // UnfinishedReductionError after a failure, CommunicationError, and, in a join,
  // UnevenInputsError. backward() itself throws UnfinishedReductionError, on every rank, if any
  // rank's pass lacked a gradient or threw (a rank whose own pass threw gets that exception);
  // UsageError if a gradient that should be a view of its bucket was replaced; and
  // CommunicationError.
  template <class... Args>
  decltype(auto) forward(Args&&... args) {
    return this->get()->forward(std::forward<Args>(args)...);
  }

  // The same: ddp(input).
  template <class... Args>
  decltype(auto) operator()(Args&&... args) {
    return forward(std::forward<Args>(args)...);
  }

  // While the guard lives, forwards make their backward passes local: gradients add up in .grad,
  // and the first synchronised pass after it averages the sum. Decided at forward, not at backward.
  // Local; guards nest.
  [[nodiscard]] NoSyncGuard no_sync() { return this->get()->no_sync(); }

  // Until its finish() ranks may run out of inputs at different steps: every rank throws, or the
  // exhausted ranks shadow their peers' collectives (see Join). Collective; blocks: ranks compare
  // the options and the names of `joinables`. Throws DisagreementError, on all ranks, if they
  // differ or cannot be honoured, or a join of this object, or of one of the joinables, is active;
  // UnfinishedReductionError after a failure, and CommunicationError.
  [[nodiscard]] Join join(const JoinOptions& options = {},
                          std::vector<std::shared_ptr<Joinable>> joinables = {}) {
    return this->get()->join(options, std::move(joinables));
  }
};

template <class M>
DistributedDataParallel(std::shared_ptr<M>, DistributedDataParallelOptions)
    -> DistributedDataParallel<M>;
template <class M>
DistributedDataParallel(const torch::nn::ModuleHolder<M>&, DistributedDataParallelOptions)
    -> DistributedDataParallel<M>;

}  // namespace lockstep
