#pragma once

#include "ddp/bucket_plan.h"
#include "ddp/comm/communicator.h"
#include "ddp/comm/streams.h"
#include "ddp/consistency/named_tensor.h"
#include "ddp/logging_data.h"
#include "ddp/reducer/bucket.h"
#include "ddp/reducer/gradient_hooks.h"
#include "ddp/reducer/launch.h"
#include "ddp/reducer/readiness.h"
#include "ddp/reducer/static_graph.h"
#include "ddp/reducer/step_times.h"

#include <ATen/core/Tensor.h>

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

// Note [The flag in the last bucket]
// A rank whose backward pass has ended does not know how its peers' passes went, and a peer that
// lacks a gradient, or threw, would never launch the rest. So such a rank fills the missing
// gradients with zeros and launches all remaining buckets. The last bucket, launched when the pass
// has ended, has one extra element, which is 0 on a rank without an error. After the sum every rank
// knows whether any rank had an error; if so, all ranks raise the same sentence, and the group
// stays usable. (Zero, not W, is exact in any dtype. Every bucket has the element, so that equal
// buckets have equal sizes on the wire; only the last bucket's is used.) Source: docs/semantics.md
// 0.7.
//
// Note [Flags of a device]
// On a device streams wait and the host does not: only reading the flag would make it wait. So the
// host continues, and reads the flag two forwards later at the latest. A rank whose pass failed
// also reports it through the group's store and launches what is left, so that no device waits for
// it. Peers find the flag, or the sentence, at a forward that may differ from rank to rank, so the
// object is unusable on all of them until restart(). The pass after it may have used averages that
// lack that rank.

// Averages gradients during backward: hooks each parameter's gradient, packs it scaled by 1/W,
// launches full buckets, and at the end of the pass waits and writes the averages back. Owned by
// one DistributedDataParallel; the parameters' hooks live as long as it does.
//
// Note [Which backward passes are reduced]
// A pass through an output of a synchronised forward is reduced, and a pass through outputs of
// local forwards alone is not: the graph decides, however often and in whatever order graphs are
// used. A pass through no output is reduced if its graph has a function that a synchronised forward
// recorded (a loss made of what the module kept for itself). Otherwise it is local: a pass of the
// bare module, or of parameters alone, which no peer may run. Where the output of the last forward
// cannot be seen, that forward decides as well, once: a pass that goes through no output and runs
// no known function may recompute a segment inside that forward's pass.
//
// Source: docs/semantics.md 2.2 to 2.6. One forward's gradients cannot be collected over two
// backward passes: the first pass is reported as unfinished.
class Reducer : public std::enable_shared_from_this<Reducer> {
 public:
  struct Options {
    std::vector<std::int64_t> bytes_caps;
    bool first_plan_has_caps = false;
    bool find_unused_parameters = false;  // off where the graph is static
    bool static_graph = false;
    bool skip_unused_buckets = false;
    // A pass that threw is reported to peers at once, and nothing is reduced until restart(): peers
    // may wait in the middle of their passes. Note [Layers that train over ranks].
    bool ends_with_an_exception = false;
    BucketOptions bucket;
  };
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

  // Called before a forward whose backward passes are to be synchronised. Once, after the first
  // complete synchronised pass, it rebuilds the buckets by rank 0's order of arrival: Collective,
  // blocks. Throws UsageError if a parameter was frozen, unfrozen, converted or reshaped since the
  // parameters were given.
  void prepare();

  // forward_begins() is called before every forward, and watch() on the same thread after a forward
  // with gradients: it decides whether passes through its outputs are reduced. `outputs` is empty
  // if they cannot be seen. Local.
  void forward_begins();
  void watch(const std::optional<std::vector<at::Tensor>>& outputs, bool synchronised);

  // A change of a parameter that update_parameters() cannot repair: "parameter 'w' was converted
  // ...". Local.
  std::optional<std::string> objection_to_tensors() const;

  // From now on each reduced pass begins by calling `divisor`, which returns what sums are divided
  // by to become averages. An empty function restores the initial divisor, the world size.
  // `divisor` may be Collective; this call is Local.
  void ask_before_each_pass(std::function<int()> divisor);

  // Runs the collectives of one reduced pass of the ranks that have inputs, on a rank that has
  // none: zeros in every bucket. Gradients keep their values, except those that are views, whose
  // values are then undefined. Errors of the other ranks' pass are not raised here. Not with static
  // graphs. Collective; blocks. Throws CommunicationError.
  void shadow(int divisor);

  // A synchronised forward threw on this rank. If its peers' did not, the next pass fails on all
  // ranks. Local.
  void leave_out_forward(std::int64_t forward_number);

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
  std::int64_t pass_count() const { return pass_count_; }  // of those without an error
  void fill(LoggingData& data) const;
  void set_sample_rate(int sample_rate);

 private:
  // Everything derived from a plan, rebuilt with it.
  struct Layout {
    Layout(BucketPlan wanted, const std::vector<at::Tensor>& parameters,
           const std::vector<GradientSize>& sizes, BucketOptions options);
    struct Place {
      std::size_t payload = 0;
      std::size_t slot = 0;
    };
    BucketPlan plan;
    std::vector<BucketPayload> payloads;
    std::vector<Place> places;  // by gradient
    Readiness readiness;
    BucketLauncher launcher;
  };

  Reducer(std::shared_ptr<Communicator> communicator, std::vector<Parameter> trainable,
          std::vector<NamedTensor> frozen, Options options);
  void take(std::vector<Parameter> trainable, std::vector<NamedTensor> frozen);
  void listen();
  void remember_forward();
  void check_parameters();
  std::optional<std::string> objection_to_freezing() const;
  BucketPlan initial_plan() const;
  void rebuild();
  std::vector<std::size_t> order_of_completion() const;

  // Around and in a pass; mutex_ is held.
  void on_output_gradient(bool synchronised);
  void on_gradient(std::size_t index);
  void on_end(bool thrown);
  bool is_of_a_synchronised_forward() const;
  void await_end_of_this_pass();
  void call_at_end_of_this_pass(void (Reducer::*act)(bool thrown));
  void let_passes_end(std::unique_lock<std::mutex>& lock);
  void open_pass();
  void skip_unused_buckets();
  bool is_known_to_be_unused(std::size_t index) const;
  bool holds_what_was_used(std::size_t index) const;
  static bool all_left_out_one_forward(const std::vector<std::string>& validation_errors);
  void arrive(std::size_t index);
  std::string arrival_error(std::size_t index) const;
  enum class GradientArrival { arrived, unused, missing };
  void pack(std::size_t index, GradientArrival arrival);
  void pack_what_is_left();
  void finish_pass(bool thrown);
  void until_communication_fails(const std::function<void()>& act);
  void launch_the_rest();
  void finish();
  std::vector<bool> wait_for_used(Operation& sum, const at::Tensor& counts) const;
  bool flags_come_late() const;
  void read_late_flags(std::size_t lag);
  bool flag_is_raised();
  std::exception_ptr write_back(const std::vector<bool>& used_somewhere);
  void close_pass();
  // Makes this object unusable and ends a pass that is under way.
  void give_up(const std::string& why);
  std::string names_of(const std::vector<std::size_t>& indices) const;
  [[noreturn]] void report(const std::vector<std::string>& validation_errors);
  [[noreturn]] void end_with_validation_error();
  std::string whose(std::size_t index) const;

  std::shared_ptr<Communicator> communicator_;
  std::vector<at::Tensor> parameters_;
  std::vector<std::string> names_;
  std::vector<NamedTensor> frozen_;
  Options options_;
  std::vector<GradientSize> sizes_;
  struct Shape {
    std::vector<std::int64_t> sizes, strides;
    c10::Device device;
    at::ScalarType dtype;
  };
  std::vector<Shape> shapes_;

  mutable std::mutex mutex_;  // hooks may run on autograd's threads
  std::unique_ptr<Layout> layout_;
  std::vector<std::size_t> arrivals_;  // of the last pass; one that came twice occurs twice
  bool is_rebuilt_ = false;

  // State that forwards leave behind.
  bool has_outstanding_forward_ = false;
  bool last_forward_decides_ = false;            // Note [Which backward passes are reduced]
  Recording forward_;                            // the current or last forward's
  std::deque<Recording> synchronised_forwards_;  // the last ones
  std::vector<bool> unused_;                     // that no outstanding forward reaches
  std::vector<bool> reached_locally_;            // by local forwards, since the last reduction
  std::vector<bool> used_;                       // on this rank, since the last reduction
  StaticGraph static_graph_;
  std::vector<bool> used_somewhere_;  // in the static graph

  // State of the current pass.
  enum class Pass { none, local, reduced };
  Pass pass_ = Pass::none;
  bool came_through_an_output_ = false;
  bool end_is_awaited_ = false;
  int ends_to_come_ = 0;  // callbacks at the end of a pass, since the last restart
  std::condition_variable ends_have_come_;
  std::int64_t restart_count_ = 0;
  std::vector<std::size_t> local_arrivals_;  // while it is local
  ArrivalStreams streams_;
  bool is_shadowing_ = false;
  int divisor_ = 1;
  std::function<int()> ask_divisor_;
  std::string validation_error_;
  std::string left_out_;                // the validation_error of a rank whose forward threw
  std::optional<std::string> failure_;  // of communication: this object is unusable
  FlagsUnderWay late_flags_;

  // Statistics of passes without an error, and the last error.
  std::int64_t pass_count_ = 0;
  std::int64_t buckets_reduced_ = 0;
  std::int64_t unused_bytes_ = 0;
  std::string last_error_;
  BucketPlan constructed_plan_;
  StepTimes times_;
  std::unique_ptr<GradientHooks> hooks_;  // last: silent before anything else is destroyed
};

}  // namespace lockstep
