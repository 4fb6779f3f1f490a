#pragma once

#include "ddp/bucket_plan.h"
#include "ddp/comm/communicator.h"
#include "ddp/comm/streams.h"
#include "ddp/consistency/named_tensor.h"
#include "ddp/logging_data.h"
#include "ddp/reducer/backward_pass.h"
#include "ddp/reducer/gradient_hooks.h"
#include "ddp/reducer/reduced_model.h"
#include "ddp/reducer/reducer_options.h"
#include "ddp/reducer/step_times.h"
#include "ddp/reducer/synchronised_forwards.h"

#include <ATen/core/Tensor.h>

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

// Note [Flags of a device]
// On a device streams wait and the host does not: only reading the flag would make it wait. So the
// host continues, and reads the flag two forwards later at the latest. A rank whose pass failed
// also reports it through the group's store and launches what is left, so that no device waits for
// it. Peers find the flag, or the sentence, at a forward that may differ from rank to rank, so the
// object is unusable on all of them until restart(). The pass after it may have used averages that
// lack that rank.

// Averages gradients during backward. It keeps what outlives a pass: the parameters, their buckets
// and hooks, what forwards leave behind, late flags, statistics. Each backward pass is an object,
// BackwardPass, which packs gradients divided by the pass's divisor (the number of ranks, or fewer
// in a join; for a communication hook undivided) and launches full buckets; at its end the reducer
// waits and has the averages written back. SynchronisedForwards decides which passes are
// reduced. Owned by one DistributedDataParallel; the parameters' hooks live as long as it does.
//
// Names in c10d::Reducer: autograd_hook is on_gradient, mark_variable_ready packs into
// PassBuckets, mark_bucket_ready and all_reduce_bucket are BucketLauncher's, finalize_backward is
// finish_pass.
//
// One forward's gradients cannot be collected over two backward passes: the first pass is reported
// as unfinished. Source: docs/semantics.md 2.2 to 2.6.
class Reducer : public std::enable_shared_from_this<Reducer> {
 public:
  using Options = ReducerOptions;
  using Parameter = TrainableParameter;

  // Local; does not block. `trainable`: at least one parameter, equal on all ranks. `frozen`
  // parameters are only checked: they must stay frozen.
  static std::shared_ptr<Reducer> create(std::shared_ptr<Communicator> communicator,
                                         std::vector<Parameter> trainable,
                                         std::vector<NamedTensor> frozen, Options options);
  Reducer(const Reducer&) = delete;
  Reducer& operator=(const Reducer&) = delete;

  // Waits, at most as long as for a peer, until no pass is under way on other threads. On a thread
  // of a pass it does not wait. Note [Ends that come after backward]. Local; blocks.
  void let_passes_end();

  // Called before every forward and on request: lets passes end first. Local. Throws
  // UnfinishedReductionError if the last reduction was cut off by a failure of communication, or is
  // still under way. On a device it also throws for earlier reductions: it waits for the flags of
  // all but the last `lag` of them.
  void check_finished(std::size_t lag);

  // Called before a forward with gradients: hooks parameters again whose accumulators were dropped,
  // as Module::to() does there and back. Gradients that arrived before are not seen. Local.
  void restore_hooks();

  // Counts a synchronised forward; returns its number, which ranks compare in each reduced pass.
  std::int64_t count_forward();
  std::int64_t forward_count() const;

  // Called next, before a forward whose backward passes are to be synchronised. Once, after the
  // first complete synchronised pass, it rebuilds the buckets by rank 0's order of arrival:
  // Collective, blocks. Throws UsageError if a parameter was frozen, unfrozen, converted or
  // reshaped since the parameters were given.
  void prepare();

  // forward_begins() is called before every forward, and watch() on the same thread after a forward
  // with gradients: Note [Which backward passes are reduced]. `outputs` is empty if they cannot be
  // seen. Local.
  void forward_begins();
  void watch(const std::optional<std::vector<at::Tensor>>& outputs, bool synchronised);

  // A change of a parameter that update_parameters() cannot repair: "parameter 'w' was converted
  // ...". Local.
  std::optional<std::string> changed_tensor() const { return model_->parameters.changed_tensor(); }

  // From now on reduced passes call `hook` in place of all-reducing a dense bucket; called before
  // the first one. hook() is null where there is none. Local.
  void set_hook(std::shared_ptr<CommunicationHook> hook);
  std::shared_ptr<CommunicationHook> hook() const;

  // From now on each reduced pass begins by calling `divisor`, which returns what sums are divided
  // by to become averages. An empty function restores the initial divisor, the world size.
  // `divisor` may be Collective; this call is Local.
  void ask_before_each_pass(std::function<int()> divisor);

  // Runs the collectives of one reduced pass of the ranks that have inputs, on a rank that has
  // none: zeros in every bucket. If `writes`, .grad receives the averages, as on the other ranks;
  // otherwise gradients keep their values, except those that are views, whose values are then
  // undefined. Errors of the other ranks' pass are not raised here. Not with static graphs.
  // Collective; blocks. Throws CommunicationError.
  void shadow(int divisor, bool writes);

  // From now on each reduced pass that succeeded, and is no shadow, ends with a call of `act`, when
  // its averages are in .grad. Local.
  void act_after_each_pass(std::function<void()> act);

  // The synchronised forward that was counted last threw on this rank. If its peers' did not, the
  // next pass fails on all ranks. Local.
  void leave_out_forward();

  // A join is over: no peer expects the pass of a forward that threw in it. Local.
  void forget_left_out_forward();

  // Communication has failed elsewhere: nothing works until restart(). Local.
  void fail(const std::string& sentence);

  // The same, unless a failure was recorded before. Local.
  void fail_unless_failed(const std::string& sentence);

  // Rebuilds buckets, counts and hooks for the current parameters, on another group or after a
  // failure. Local.
  void restart(std::shared_ptr<Communicator> communicator, bool ends_with_an_exception,
               std::vector<Parameter> trainable, std::vector<NamedTensor> frozen);

  // Other parameters require a gradient from now on: rebuilds buckets, counts and hooks. Gradients
  // stay, and parameters used by local passes still count as used. No pass may be under way. Local.
  void update_parameters(std::vector<Parameter> trainable, std::vector<NamedTensor> frozen);

  // No backward pass is observed any more, until restart(). Local.
  void remove_hooks();

  BucketPlan plan() const;
  std::int64_t pass_count() const { return model_->pass_count; }  // of those without an error
  void fill(LoggingData& data) const;
  void set_sample_rate(int sample_rate);

 private:
  Reducer(std::shared_ptr<Communicator> communicator, std::vector<Parameter> trainable,
          std::vector<NamedTensor> frozen, Options options);
  void listen();
  void check_parameters();
  void rebuild();

  // Around and in a pass; mutex_ is held.
  void on_output_gradient(bool synchronised);
  void remember_functions_of_gradients();
  void on_gradient(std::size_t index);
  void begin_pass();
  BackwardPass::Context context();
  void reduce_pass();
  void call_at_end_of_this_pass(void (Reducer::*act)(bool thrown));
  void on_end(bool thrown);
  void tell_of_a_bare_pass();
  void finish_pass(bool thrown);
  void finish();
  [[noreturn]] void end_with_validation_error();
  void end_pass();
  void drop_pass();
  void let_passes_end(std::unique_lock<std::mutex>& lock);
  void until_communication_fails(const std::function<void()>& act);
  void read_late_flags(std::size_t lag);
  // Makes this object unusable and ends a pass that is under way.
  void give_up(const std::string& why);

  std::shared_ptr<Communicator> communicator_;
  Options options_;
  mutable std::mutex mutex_;  // hooks may run on autograd's threads
  std::unique_ptr<ReducedModel> model_;
  SynchronisedForwards forwards_;
  bool gradients_are_recorded_ = false;  // of a pass under way: Note [Functions of gradients]
  std::function<int()> ask_divisor_;
  std::function<void()> act_after_pass_;

  // The pass under way, from its first gradient to its end.
  std::shared_ptr<BackwardPass> pass_;
  // The number of callbacks that wait for the ends of their passes. restart() makes a new count: an
  // older callback belongs to a pass that is no longer observed.
  std::shared_ptr<int> pending_end_callbacks_ = std::make_shared<int>(0);
  std::condition_variable ends_have_come_;

  bool has_reported_a_bare_pass_ = false;
  std::int64_t forward_count_ = 0;      // of synchronised ones: Note [Numbers in a sum]
  std::string left_out_;                // the validation_error of a rank whose forward threw
  std::optional<std::string> failure_;  // of communication: this object is unusable
  PendingFlagCopies late_flags_;

  // Statistics of passes without an error, and the last error.
  std::int64_t buckets_reduced_ = 0;
  std::int64_t unused_bytes_ = 0;
  std::string last_error_;
  BucketPlan constructed_plan_;
  StepTimes times_;
  std::unique_ptr<GradientHooks> hooks_;  // last: silent before anything else is destroyed
};

}  // namespace lockstep
