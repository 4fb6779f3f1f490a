#pragma once

#include "ddp/comm/communicator.h"
#include "ddp/comm/streams.h"
#include "ddp/reducer/pass_buckets.h"
#include "ddp/reducer/reduced_model.h"
#include "ddp/reducer/reducer_options.h"
#include "ddp/reducer/static_graph.h"
#include "ddp/reducer/step_times.h"
#include "ddp/reducer/unfinished.h"

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {

// One backward pass of one instance on this rank, made at its first gradient and destroyed at its
// end: what has arrived and on which streams, and from the moment it is reduced its divisor, its
// buckets and its error. Until then it is local and only notes what arrives.
//
// Unless said otherwise a call is Local and does not block. Source: docs/semantics.md 2.3 to 2.6.
class BackwardPass {
 public:
  // The objects that a pass works on. All of them outlive the pass.
  struct Context {
    const ReducerOptions& options;
    Communicator& communicator;
    ReducedModel& model;
    StepTimes& times;
  };
  explicit BackwardPass(const Context& context);

  // The pass of the ranks that have inputs, on a rank that has none: zeros in every bucket. Returns
  // with all buckets launched. write_back() then leaves gradients alone unless `writes`.
  // Collective; may block. Throws CommunicationError.
  // `number` is that of the step, as in launch_the_rest().
  void shadow(int divisor, bool writes, std::int64_t number);

  // From now on this pass is reduced; packs what has arrived so far and what this rank does not
  // use. `divisor` returns what sums are divided by; unset, that is the world size. Collective; may
  // block. Throws CommunicationError, and what `divisor` throws.
  void reduce(const std::function<int()>& divisor);
  bool is_reduced() const { return buckets_.has_value(); }
  bool is_shadow() const { return is_shadow_; }

  // The gradient of a parameter is in .grad. In a reduced pass it issues collectives, as on every
  // rank; does not block; throws CommunicationError.
  void gradient_arrives(std::size_t index);

  // The gradients that arrived, in order; one that arrived twice occurs twice.
  const std::vector<std::size_t>& arrivals() const { return arrivals_; }

  // await_end() returns false if a callback at the end of the pass is queued already;
  // end_has_come() says that it has run. It may have run at the end of a nested pass: Note [Nested
  // backward passes].
  bool await_end() { return !std::exchange(end_is_awaited_, true); }
  void end_has_come() { end_is_awaited_ = false; }

  // Through an output of a forward, which was synchronised or not.
  void comes_through_an_output(bool is_synchronised) {
    has_met_an_output_ = true;
    came_through_an_output_ = came_through_an_output_ || is_synchronised;
  }
  bool came_through_an_output() const { return came_through_an_output_; }
  bool has_met_an_output() const { return has_met_an_output_; }

  // The rest is for a reduced pass. Autograd has ended it with an exception. On a device the caller
  // may have received that already and be clearing gradients: from now on none is read.
  void autograd_threw();

  // Autograd is done: packs and launches what is left. `error_before`: of this rank, from before
  // the pass, or empty; `number`: PassFlag. Issues collectives, as on every rank; does not block;
  // throws CommunicationError.
  void launch_the_rest(const std::string& error_before, std::int64_t number);

  // Called in this order after that. Collective; they block and throw CommunicationError.
  void wait_for_sums();
  PassBuckets::Written write_back();

  // In place of the last, on a rank whose pass failed: takes part in what its peers' passes need of
  // it.
  void take_part() { buckets_->write_back(used_somewhere_, /*writes=*/false); }

  // Between them: what each rank says of its pass. Collective; blocks; throws CommunicationError.
  std::vector<PassReport> exchange_reports();
  const std::string& validation_error() const { return validation_error_; }

  const PassBuckets& buckets() const { return *buckets_; }

  // The pass is over, well or not. The current stream waits for all work on the buckets.
  void settle() { buckets_->settle(); }

 private:
  void open_buckets(int divisor);
  bool is_learning() const;
  void skip_unused_buckets();
  bool is_known_to_be_unused(std::size_t index) const;
  bool holds_what_was_used(std::size_t index) const;
  bool is_in_the_graph(std::size_t index) const;
  void arrive(std::size_t index);
  std::string arrival_error(std::size_t index) const;
  // Why .grad does not fit its bucket, if it does not: it is then reported, and counts as zero.
  std::string form_error(std::size_t index) const;
  void pack(std::size_t index, GradientArrival arrival);
  void note_error(const std::string& error);  // the first one counts
  void pack_what_is_left();
  void start_sum_of_used();
  std::string whose(std::size_t index) const;

  const Context on_;
  ArrivalStreams streams_;
  std::vector<std::size_t> arrivals_;
  bool end_is_awaited_ = false;
  bool came_through_an_output_ = false;  // of a synchronised forward
  bool has_met_an_output_ = false;
  bool is_shadow_ = false;
  bool writes_ = true;
  bool has_thrown_ = false;

  // Empty in a local pass.
  std::optional<PassBuckets> buckets_;
  std::optional<StaticGraph::Pass> counts_;  // where the graph is static
  std::string validation_error_;             // of this rank
  std::int64_t number_ = 0;                  // of this rank's step
  std::optional<Operation> sum_of_used_;     // where ranks may use different parameters
  at::Tensor counts_of_users_;               // by parameter, of this rank and then of all
  std::vector<bool> used_somewhere_;         // by parameter, after wait_for_sums()
};

}  // namespace lockstep
