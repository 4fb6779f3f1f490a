#pragma once

#include <memory>

namespace lockstep {

class DataParallelCore;
struct JoinUnderWay;

// What is done where ranks have unequally many inputs. Every value is equal on all ranks, which
// join() checks.
struct JoinOptions {
  // All ranks stop in the very step in which one has no input left: a forward, or finish(), raises
  // UnevenInputsError on every rank, with the same sentence, before anything of that step has been
  // sent. Required: the other way, in which ranks without inputs stand in for what their peers
  // send, is not in this version.
  bool throw_on_early_termination = false;

  // False: nothing is exchanged but these options, and forwards are as without a join.
  bool enable = true;
};

// A training loop of whose length each rank knows its own part alone:
//
//   auto join = ddp.join({.throw_on_early_termination = true});
//   for (auto& batch : *loader) {
//     loss(ddp.forward(batch.data), batch.target).backward();
//     ...
//   }
//   join.finish();  // this rank's inputs are used up
//
// While it is under way, each forward first asks all ranks who still has inputs (one small gather),
// and so does finish(). It counts forwards with gradients, those inside no_sync() too, and of the
// others those that send something themselves: buffers that are due, statistics of a SyncBatchNorm
// in training. Evaluation on some ranks alone is therefore free where it is local. Counted forwards
// are of one kind on all ranks, synchronised or not, or all get a DisagreementError.
//
// Where all ranks finish after equally many forwards, nothing happens. Otherwise all of them raise
// UnevenInputsError, the join is over, and the object as good as before: the gradients and the
// parameters are those of the steps that all ranks made. An instance has one join at a time. One
// that is under way goes on after update_process_group(), if it is under way on all ranks.
//
// Move-only; keeps the instance alive. Destroyed without finish(), as by an exception, it tells
// the peers, whose waits end, and the instance is over on all ranks until update_process_group().
// The destructor does not throw; it takes one exchange with the group's store, at most two seconds.
//
// Source: torch.distributed.algorithms.Join; docs/semantics.md 5.
class [[nodiscard]] Join {
 public:
  // Collective; blocks. See DistributedDataParallel::join.
  Join(std::shared_ptr<DataParallelCore> core, const JoinOptions& options);
  ~Join();
  Join(Join&&) noexcept = default;
  Join& operator=(Join&&) = delete;

  // This rank has no input left. Collective with the next counted forward of ranks that have;
  // blocks until all ranks have come. Throws UnevenInputsError as said above, UsageError if this
  // join is over, UnfinishedReductionError after a failure, CommunicationError.
  void finish();

 private:
  std::shared_ptr<DataParallelCore> core_;  // null where it was moved from
  std::shared_ptr<JoinUnderWay> state_;
};

}  // namespace lockstep
