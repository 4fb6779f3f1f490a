#pragma once

#include <memory>

namespace lockstep {

class DataParallelCore;
struct JoinUnderWay;

// What is done where ranks have unequally many inputs. Every value is equal on all ranks, which
// join() checks.
struct JoinOptions {
  // True: all ranks stop in the very step in which one has no input left. A forward, or finish(),
  // raises UnevenInputsError on every rank, with the same sentence, before anything of that step
  // has been sent.
  // False: a rank whose inputs are used up stands in for itself, in finish(), until all are: it
  // takes part in whatever its peers send and adds zeros. Refused with layers of SyncBatchNorm, for
  // whose exchanges in forward nobody can stand in, and with static_graph.
  bool throw_on_early_termination = false;

  // By what sums of gradients are divided where some ranks have no inputs: by the world size, so
  // that every input counts as much as in a full step, or by how many have inputs.
  bool divide_by_initial_world_size = true;

  // False: nothing is exchanged but these options, and forwards are as without a join.
  bool enable = true;
};

// A training loop of whose length each rank knows its own part alone:
//
//   auto join = ddp.join();
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
// are of one kind on all ranks that have inputs, synchronised or not, or all ranks get a
// DisagreementError. Without throw_on_early_termination each backward pass that is averaged asks as
// well, so that ranks without inputs follow whatever passes there are; buffers come from the
// highest rank that has inputs.
//
// Where all ranks finish after equally many forwards, a join that throws does nothing. Otherwise
// all of them raise UnevenInputsError, the join is over, and the object as good as before: the
// gradients and the parameters are those of the steps that all ranks made. A join that does not
// throw ends with a broadcast of parameters and buffers from the rank that had inputs last (of
// several the highest), since ranks that stood in made no steps of their own. What an optimizer
// keeps is not sent.
//
// An instance has one join at a time. Several instances in a loop: only one that throws, of the
// first. One under way goes on after update_process_group(), if it is under way on all ranks.
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

  // This rank has no input left. Collective with the forwards and backward passes of ranks that
  // have; blocks until all ranks have come, each wait as long as the instance's timeout, and on a
  // device until all that was issued is over. Throws UnevenInputsError as said above, UsageError
  // if this join is over, UnfinishedReductionError after a failure, CommunicationError. A pass of
  // its peers that went wrong is none of this rank's.
  void finish();

 private:
  std::shared_ptr<DataParallelCore> core_;  // null where it was moved from
  std::shared_ptr<JoinUnderWay> state_;
};

}  // namespace lockstep
