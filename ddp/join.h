#pragma once

#include <memory>
#include <vector>

namespace lockstep {

class DataParallelCore;
class Joinable;
struct JoinUnderWay;

// How a join treats ranks that have unequally many inputs. Every value must be equal on all ranks,
// which join() checks.
struct JoinOptions {
  // True: all ranks stop in the step in which one has no input left. A forward, or finish(), raises
  // UnevenInputsError on every rank, with the same sentence, before anything of that step has been
  // sent.
  // False: an exhausted rank shadows its peers' collectives, in finish(), until all ranks are
  // exhausted: it takes part in everything they send and adds zeros. Refused with layers of
  // SyncBatchNorm, whose exchanges in forward cannot be shadowed, and with static_graph.
  bool throw_on_early_termination = false;

  // The divisor of gradient sums when some ranks have no inputs: the world size (true), so that
  // every input counts as much as in a full step, or the number of ranks that have inputs.
  bool divide_by_initial_world_size = true;

  // False: only these options are exchanged, and forwards are as without a join.
  bool enable = true;
};

// A training loop in which each rank knows only its own number of inputs:
//
//   auto join = ddp.join();
//   for (auto& batch : *loader) {
//     loss(ddp.forward(batch.data), batch.target).backward();
//     ...
//   }
//   join.finish();  // this rank's inputs are used up
//
// While it is active, each counted forward, each call of a joinable and finish() first gather which
// ranks still have inputs (one small gather). Counted are forwards with gradients, those inside
// no_sync() too, and other forwards that communicate: buffers that are due, statistics of a
// SyncBatchNorm in training. Some ranks may therefore evaluate alone where evaluation is local.
// Counted forwards must be of the same kind, synchronised or not, on all ranks that have inputs, or
// all ranks throw DisagreementError. Without throw_on_early_termination each averaged backward pass
// gathers as well, so that exhausted ranks can shadow every pass; buffers come from the highest
// rank that has inputs.
//
// If all ranks finish after equally many forwards, a join that throws does nothing. Otherwise all
// of them raise UnevenInputsError, the join is over, and the object stays usable: the gradients and
// the parameters are those of the steps that all ranks made. A join that does not throw ends with a
// broadcast of parameters and buffers from the rank that had inputs last (the highest of several),
// since shadowing ranks made no steps. Optimizer state is not sent.
//
// Joinables are what else communicates in the loop: a ZeroRedundancyOptimizer, or a class of the
// program's own (ddp/joinable.h). Exhausted ranks shadow their calls too; gradients of a shadowed
// pass are then written to .grad there, since an exhausted rank may own parameters that take the
// step. In a join that throws nothing is shadowed: a call of a joinable raises UnevenInputsError on
// all ranks as a forward does, also in a loop without forwards.
//
// An instance has one join at a time. A loop over several instances may only have a join that
// throws, of the first instance. An active join without joinables continues after
// update_process_group(), if it is active on all ranks; with joinables that call is refused.
//
// Move-only; keeps the instance alive. If it is destroyed without finish(), as by an exception, it
// reports this to the peers, whose waits end, and the instance is unusable on all ranks until
// update_process_group(). The destructor does not throw; it takes one exchange with the group's
// store, at most two seconds.
//
// Source: torch.distributed.algorithms.Join; docs/semantics.md 5.
class [[nodiscard]] Join {
 public:
  // Collective; blocks. See DistributedDataParallel::join.
  Join(std::shared_ptr<DataParallelCore> core, const JoinOptions& options,
       std::vector<std::shared_ptr<Joinable>> joinables);
  ~Join();
  Join(Join&&) noexcept = default;
  Join& operator=(Join&&) = delete;

  // This rank has no input left. Collective with the forwards and backward passes of ranks that
  // have; blocks until all ranks have finished, each wait for at most the instance's timeout, and
  // on a device until all issued work is over. Throws UnevenInputsError as said above, UsageError
  // if this join is over, UnfinishedReductionError after a failure, CommunicationError. A failed
  // pass of its peers does not count as this rank's.
  void finish();

 private:
  std::shared_ptr<DataParallelCore> core_;  // null where it was moved from
  std::shared_ptr<JoinUnderWay> state_;
};

}  // namespace lockstep
