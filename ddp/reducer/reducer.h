#pragma once

#include "ddp/communicator.h"
#include "ddp/device.h"
#include "ddp/logging_data.h"
#include "ddp/reducer/bucket.h"
#include "ddp/reducer/bucket_plan.h"
#include "ddp/reducer/gradient_hooks.h"
#include "ddp/reducer/launch.h"
#include "ddp/reducer/readiness.h"
#include "ddp/reducer/static_graph.h"
#include "ddp/reducer/step_times.h"

#include <ATen/core/Tensor.h>

#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

struct NamedTensor {
  std::string name;
  at::Tensor tensor;
};

// Note [The flag in the last bucket]
// A rank whose backward pass is over cannot know how its peers' went, and a peer that lacks a
// gradient, or threw, would never launch the rest. So such a rank fills what is missing with zeros
// and launches all that is left, and the last bucket, which leaves when the pass has ended, has one
// element more, which is 0 on a rank where all is well. After the sum every rank knows whether all
// was well everywhere; if not, all raise one sentence, and the group is as good as before. (Zero,
// not W, is what stays exact in any dtype. Every bucket has the element, so that equal buckets stay
// equal on the wire; only the last one's is used.) Source: docs/semantics.md 0.7.
//
// Note [Flags of a device]
// Where streams wait and the host does not, it would have to wait for the flag alone. It goes on
// instead, and looks two forwards later at the latest. A rank whose pass went wrong says so in the
// group's store besides and launches what is left, so that no device waits for it; peers find the
// flag, or the sentence, at a forward that need not be the same on all, and so the object is over
// on all of them until restart(). The pass after it may have used averages that lack that rank.

// Averages gradients during backward: listens for each parameter's gradient, packs it scaled by
// 1/W, launches full buckets, and at the end of the pass waits and writes the averages back. Owned
// by one DistributedDataParallel; the parameters' hooks live as long as it does.
//
// Note [Which backward passes are reduced]
// A pass that goes through an output of a synchronised forward is, and one that goes through
// outputs of local forwards alone is not: the graph decides, however often and in whatever order
// graphs are used. Where outputs cannot be seen, or the pass goes through none (a loss made of what
// the module kept for itself), it is reduced if the last forward was synchronised, or an earlier
// one that was had no pass yet.
//
// Source: docs/semantics.md 2.2 to 2.6. One forward's gradients cannot be collected over two
// backward passes, since the first of them is reported as unfinished.
class Reducer : public std::enable_shared_from_this<Reducer> {
 public:
  struct Options {
    std::vector<std::int64_t> bytes_caps;
    bool first_plan_has_caps = false;
    bool find_unused_parameters = false;  // off where the graph is static
    bool static_graph = false;
    bool skip_unused_buckets = false;
    // A pass that threw is told to peers at once, and nothing is reduced until restart(): they may
    // wait in the middle of theirs. Note [Layers that train over ranks].
    bool ends_with_an_exception = false;
    BucketOptions bucket;
  };
  struct Parameter {
    std::string name;
    at::Tensor tensor;
    bool sparse = false;
    bool delayed = false;
  };

  // Local; does not block. `trainable`: at least one parameter, equal on all ranks.
  // `frozen` ones are only watched: they must stay frozen.
  static std::shared_ptr<Reducer> create(std::shared_ptr<Communicator> communicator,
                                         std::vector<Parameter> trainable,
                                         std::vector<NamedTensor> frozen, Options options);
  Reducer(const Reducer&) = delete;
  Reducer& operator=(const Reducer&) = delete;

  // Waits, for as long as for a peer, until no pass is under way on other threads; on a thread of a
  // pass it does not. Note [Ends that come after backward]. Local; blocks.
  void let_passes_end();

  // Before every forward, and whenever asked: lets passes end first. Local. Throws
  // UnfinishedReductionError if the last reduction was cut off by a failure of communication, or is
  // still under way; and so, on a device, for one of those before: of all but the last `lag` of
  // them it waits to be told.
  void check_finished(std::size_t lag);

  // Before a forward whose backward passes are to be synchronised. Once, after the first complete
  // synchronised pass, it lays out the buckets anew by rank 0's order of arrival: Collective,
  // blocks. Throws UsageError if a parameter was frozen, unfrozen, converted or reshaped since
  // construction.
  void prepare();

  // After a grad-enabled forward: what becomes of the passes through its outputs; nothing if the
  // outputs cannot be seen. Local.
  void watch(const std::optional<std::vector<at::Tensor>>& outputs, bool synchronised);

  // What became of a parameter that it must not: "parameter 'w' was frozen ...". Local.
  std::optional<std::string> objection_to_parameters() const;

  // From here on each pass that is reduced begins with a question: by what sums are divided to be
  // averages. Nothing asked: by the world size, as at first. It may be Collective. Local.
  void ask_before_each_pass(std::function<int()> divisor);

  // One reduced pass of the ranks that have inputs, on a rank that has none: zeros in every bucket,
  // and gradients stay as they are, but those that are views, which are of no use then. A pass that
  // went wrong elsewhere is none of this rank's business. Not with static graphs. Collective;
  // blocks. Throws CommunicationError.
  void stand_in(int divisor);

  // A synchronised forward threw on this rank. If its peers' did not, the next pass is none of
  // theirs. Local.
  void leave_out_forward(std::int64_t forward_number);

  // Communication has failed elsewhere: nothing works until restart(). Local.
  void fail(const std::string& sentence);

  // The same, where nothing has failed before. Local.
  void fail_unless_failed(const std::string& sentence);

  // Everything begins anew, on other ranks or after a failure: buckets, counts, hooks. Local.
  void restart(std::shared_ptr<Communicator> communicator, bool ends_with_an_exception);

  // No backward pass is heard any more; until restart(). Local.
  void remove_hooks();

  BucketPlan plan() const;
  void tell(LoggingData& data) const;
  void set_sample_rate(int sample_rate);

 private:
  // What follows from a plan, rebuilt with it.
  struct Layout {
    Layout(BucketPlan wanted, const std::vector<at::Tensor>& parameters,
           const std::vector<GradientSize>& sizes, BucketOptions options);
    struct Place {
      std::size_t load = 0;
      std::size_t slot = 0;
    };
    BucketPlan plan;
    std::vector<Load> loads;
    std::vector<Place> places;  // by gradient
    Readiness readiness;
    BucketLauncher launcher;
  };

  Reducer(std::shared_ptr<Communicator> communicator, std::vector<Parameter> trainable,
          std::vector<NamedTensor> frozen, Options options);
  void listen();
  void check_parameters();
  BucketPlan initial_plan() const;
  void rebuild();
  std::vector<std::size_t> order_of_completion() const;

  // Around and in a pass; mutex_ is held.
  void on_output_gradient(bool synchronised);
  void on_gradient(std::size_t index);
  void on_end(bool thrown);
  bool last_forward_wants_it_reduced() const;
  void await_end_of_this_pass();
  void call_at_end_of_this_pass(void (Reducer::*act)(bool thrown));
  void let_passes_end(std::unique_lock<std::mutex>& lock);
  void open_pass();
  void skip_unused_buckets();
  bool is_known_to_be_unused(std::size_t index) const;
  bool holds_what_was_used(std::size_t index) const;
  static bool all_left_out_one_forward(const std::vector<std::string>& complaints);
  void arrive(std::size_t index);
  std::string objection_to(std::size_t index) const;
  enum class Standing { arrived, unused, missing };
  void pack(std::size_t index, Standing standing);
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
  // This object is over, and a pass that is under way with it.
  void give_up(const std::string& why);
  std::string names_of(const std::vector<std::size_t>& indices) const;
  [[noreturn]] void report(const std::vector<std::string>& complaints);
  [[noreturn]] void end_with_complaint();
  std::string whose(std::size_t index) const;

  std::shared_ptr<Communicator> communicator_;
  std::vector<at::Tensor> parameters_;
  std::vector<std::string> names_;
  const std::vector<NamedTensor> frozen_;
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
  std::vector<std::size_t> arrivals_;  // of the last pass, one that came twice twice
  bool is_rebuilt_ = false;

  // What forwards leave behind.
  bool outputs_are_seen_ = false;
  bool has_outstanding_forward_ = false;
  bool last_forward_was_synchronised_ = false;
  std::vector<bool> unused_;           // what no outstanding forward reaches
  std::vector<bool> reached_locally_;  // by local forwards, since the last reduction
  std::vector<bool> used_;             // on this rank, since the last reduction
  StaticGraph static_graph_;
  std::vector<bool> used_somewhere_;  // in the static graph

  // The pass that is under way.
  enum class Pass { none, undecided, local, reduced };
  Pass pass_ = Pass::none;
  bool end_is_awaited_ = false;
  int ends_to_come_ = 0;  // of what is called at the end of a pass, since the last restart
  std::condition_variable ends_have_come_;
  std::int64_t restart_count_ = 0;
  std::vector<std::size_t> undecided_;  // arrivals while it is undecided or local
  ArrivalStreams streams_;
  bool is_standing_in_ = false;
  int divisor_ = 1;
  std::function<int()> ask_divisor_;
  std::string complaint_;
  std::string left_out_;                // the complaint of a rank whose forward threw
  std::optional<std::string> failure_;  // of communication: this object is over
  FlagsUnderWay late_flags_;

  // Of passes that ended well, but for the error.
  std::int64_t pass_count_ = 0;
  std::int64_t buckets_reduced_ = 0;
  std::int64_t unused_bytes_ = 0;
  std::string last_error_;
  BucketPlan constructed_plan_;
  StepTimes times_;
  std::unique_ptr<GradientHooks> hooks_;  // last: silent before anything else is destroyed
};

}  // namespace lockstep
