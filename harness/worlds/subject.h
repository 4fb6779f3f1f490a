// A subject: the data-parallel code under test, as a value of optional parts. Lockstep's own,
// PyTorch's C++ Reducer and a user's are all one of these; an empty part means "does not offer
// this".
#pragma once

#include "harness/history/history.h"
#include "harness/worlds/checkpoints.h"
#include "harness/worlds/collectives.h"
#include "harness/worlds/optimizers.h"
#include "harness/worlds/options.h"

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/torch.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {

class RankContext;
using Group = c10::intrusive_ptr<c10d::ProcessGroup>;

// Thrown by a part for a feature it lacks, before its first collective and on every rank: the case
// ends `refused`, a skip with this text as its reason.
struct Unsupported : std::runtime_error {
  using runtime_error::runtime_error;
};

// All outputs of a model in a struct of its own.
struct NestedOutputs {
  at::Tensor first;
  std::map<std::string, std::optional<std::pair<at::Tensor, std::vector<at::Tensor>>>> others;
};
NestedOutputs nested(const std::vector<at::Tensor>& outputs);
std::vector<at::Tensor> listed(const NestedOutputs& outputs);

// A model as scenarios build it. LibTorch's own modules have no common forward to call.
class Model : public torch::nn::Module {
 public:
  using torch::nn::Module::Module;
  virtual at::Tensor forward(const at::Tensor& input) = 0;

  // For a model with several outputs: all of them.
  virtual std::vector<at::Tensor> outputs(const at::Tensor& input) { return {forward(input)}; }
  struct Nested {};
  NestedOutputs forward(const at::Tensor& input, Nested /*unused*/) {
    return nested(outputs(input));
  }
  struct AllOutputs {};
  std::vector<at::Tensor> forward(const at::Tensor& input, AllOutputs /*unused*/) {
    return outputs(input);
  }
  struct Opaque {  // the output, in a type that no subject knows
    at::Tensor output;
  };
  struct InOpaque {};
  Opaque forward(const at::Tensor& input, InOpaque /*unused*/) { return {forward(input)}; }
};

// A replica's log of itself, by PyTorch's names; docs/semantics.md 1.5.
struct ReplicaLog {
  std::vector<int64_t> bucket_sizes, rebuilt_bucket_sizes;
  std::vector<std::vector<size_t>> rebuilt_per_bucket_param_indices;
  std::vector<size_t> prev_iteration_grad_ready_order_indices;
  bool has_rebuilt_buckets = false, join_uneven_inputs = false;
  int64_t iteration = 0, num_parameter_tensors = 0, total_parameter_size_bytes = 0;
  int64_t num_buckets_reduced = 0, unused_parameter_size = 0;
  int64_t rank = 0, world_size = 0;
  std::vector<int64_t> bucket_cap_bytes;
  std::map<std::string, bool> switches;  // the options that are on or off, and has_sync_bn
  std::vector<std::string> dtypes;       // of the gradients
  std::string comm_hook;
  std::string error;  // of the last pass that failed
  int64_t timed_iterations = 0;
  // In nanoseconds, of the last timed pass and on average: forward, backward, communication, and
  // communication while autograd runs.
  std::vector<int64_t> times, average_times;
};

// The calls that a program makes in a loop beside its replicas, and a rank without inputs shadows.
class BesideReplica {
 public:
  virtual ~BesideReplica() = default;
  virtual void shadow() = 0;  // takes part in one call of the other ranks
  virtual void all_have_joined(
      int last_rank) = 0;  // at the join's end; a rank that had inputs last

  // For the program, before each of its calls: in a join the other ranks receive that it comes.
  void announce() const {
    if (tell) tell();
  }
  std::function<void()> tell;  // set by the subject
};

// A wrapped model on one rank.
class Replica {
 public:
  virtual ~Replica() = default;

  // Collective where the subject's forward is collective.
  virtual at::Tensor forward(const at::Tensor& input) = 0;

  // The same, and returns all outputs of the model. Throws Unsupported unless the subject offers
  // it.
  virtual std::vector<at::Tensor> outputs(const at::Tensor& input);
  virtual NestedOutputs nested_outputs(const at::Tensor& input);

  // As forward, of a model that returns its output in a type into which the subject cannot look.
  // The returned tensor stays on the model's device. Throws Unsupported unless the subject offers
  // it.
  virtual at::Tensor opaque_output(const at::Tensor& input);

  // Collective. Back-propagates; on return the gradients of the model are the averaged ones.
  virtual void backward(const at::Tensor& loss) { loss.backward(); }

  // Runs `steps` with gradients accumulating locally instead of being averaged. Throws Unsupported
  // unless the subject offers it.
  virtual void no_sync(const std::function<void()>& steps);

  // The same until what it returns is destroyed, which may outlive the replica.
  virtual std::shared_ptr<void> no_sync();

  // Collective. `steps` calls forward once for each input of this rank. Where other ranks have more
  // inputs, all ranks throw in the same step (JoinKind::throws), or an exhausted rank shadows the
  // others and averages are over the `world` or over the active ranks (`live`); or nothing
  // is done about it (`disabled`). Throws Unsupported for a kind that the subject does not offer.
  // Exhausted ranks shadow the calls of `optimizers` too, if there are any.
  virtual void join(JoinKind kind, const std::function<void()>& steps,
                    const std::vector<ShardedOptimizer*>& optimizers = {});

  // The same, of calls of the program's own too. Throws Unsupported unless the subject offers it.
  virtual void join_beside(JoinKind kind, const std::function<void()>& steps,
                           const std::vector<ShardedOptimizer*>& optimizers,
                           const std::vector<BesideReplica*>& beside);

  // Collective. Called once parameters of the model were frozen or unfrozen, the same ones on all
  // ranks. Throws Unsupported unless the subject offers it.
  virtual void update_trainable_parameters();

  // Local. The same has changed, and the program does not say so: the next forward that would be
  // synchronised throws. Throws Unsupported unless the subject offers that.
  virtual void parameters_changed_unreported();

  // Collective over `group`, with whose ranks it averages from here on. Throws Unsupported unless
  // the subject offers it.
  virtual void update_process_group(const Group& group);

  // At the end of a training: throws an error that occurred and was not reported yet.
  virtual void finish() {}

  // Collective. Continues over the same ranks after an error that ended the training. Throws
  // Unsupported unless the subject offers it.
  virtual void begin_anew();

  // Collective. From now on each synchronised backward pass ends with a step of `optimizer`, which
  // then clears the gradients. Throws Unsupported unless the subject offers it.
  virtual void step_in_backward(std::shared_ptr<torch::optim::Optimizer> optimizer);

  // Local. Ends the waits of this rank's peers with `sentence`. Throws Unsupported unless the
  // subject offers it.
  virtual void report_failure(const std::string& sentence);

  // Collective. Throws, on every rank, where the bits of parameters (and buffers) differ between
  // ranks. Throws Unsupported unless the subject offers it.
  virtual void check_equal(bool with_buffers);

  // Local. Returns the part of this parameter's gradients that the communication hook has left out
  // so far, on this rank, in its shape; undefined where the hook keeps nothing of it. Throws
  // Unsupported unless the subject offers it.
  virtual at::Tensor left_out(const at::Tensor& parameter);

  // Local. Saves what the communication hook of this rank keeps, and makes that of a new replica
  // continue with it. Each throws Unsupported unless the subject offers it.
  virtual std::string save_hook();
  virtual void load_hook(const std::string& saved);

  // Local. The elements of gradients that the communication hook has approximated or averaged in
  // passes that it approximates, and the elements that it sent in their place; nothing where the
  // subject does not say.
  struct Sent {
    int64_t before = 0, after = 0;
  };
  virtual std::optional<Sent> sent() const { return {}; }

  // Local. The gradients of later passes stay this rank's own, and its next forward is refused.
  // Throws Unsupported unless the subject offers it.
  virtual void remove_autograd_hooks();

  // The gradients it reduces together in the backward pass of the last forward, or of the next one
  // before there was any; nothing where the subject does not say. Local.
  virtual BucketLayout buckets() const { return {}; }

  // Local. Returns nothing where the subject keeps no log.
  virtual std::optional<ReplicaLog> log() const { return {}; }
};

// One rank's share of a dataset.
class Shard {
 public:
  virtual ~Shard() = default;
  virtual void set_epoch(int64_t epoch) = 0;

  // One pass: the indices this rank would train on, in order.
  virtual std::vector<int64_t> draw() = 0;

  // The indices of a whole pass in the epoch set last, which nobody draws; nothing where the
  // subject does not say.
  virtual std::optional<std::vector<int64_t>> foretold() const { return {}; }

  // A pass in parts. Each throws Unsupported unless the subject offers it, and any other exception
  // where it refuses.
  virtual void begin(std::optional<int64_t> length);  // over a dataset of that size, if given
  virtual std::vector<int64_t> next(int64_t most);    // samples, at least 1; none at the end
  virtual std::string save(std::optional<int64_t> samples_used);
  virtual void load(const std::string& saved);
  virtual void go_on_with_a_copy();
  virtual void turn_to_the_other_copy();  // the one that was left last, if any
};

// Layers of BatchNorm, and what makes those of a model normalise over the batches of all ranks.
struct NormLayers {
  using Module = std::shared_ptr<torch::nn::Module>;
  // A layer of the subject's own, for inputs with so many axes behind the channels, at most 3; its
  // parameters and buffers are those of torch::nn::BatchNorm.
  std::function<Module(int64_t axes, const torch::nn::BatchNormOptions&)> layer;
  // The forward of such a layer, of LibTorch's, and of what a conversion made of either.
  std::function<at::Tensor(torch::nn::Module&, const at::Tensor& input)> forward;
  // Local. Each returns the model. The layers wait for a rank at most `timeout_ms`; nothing: as
  // long as the group says.
  std::function<Module(const Module&, const Group&, std::optional<int64_t> timeout_ms)> convert;
  std::function<Module(const Module&)> revert;
};

struct Subject {
  std::string name;
  // Over the ranks of `group`.
  std::function<std::unique_ptr<Replica>(std::shared_ptr<Model>, const Group& group,
                                         const WrapOptions&)>
      wrap = nullptr;
  std::function<std::unique_ptr<Shard>(const ShardOptions&, RankContext&)> shard = nullptr;
  // Over the batches of `group`: a model of one layer, whose parameters and buffers have the names
  // of torch::nn::BatchNorm's after "norm." and are float32 at first.
  std::function<std::shared_ptr<Model>(const NormOptions&, const Group& group)> sync_batch_norm =
      nullptr;
  std::optional<NormLayers> norm_layers = {};
  // Over the ranks of `group`; steps plain SGD with learning rate 1.
  std::function<std::unique_ptr<AveragedSgd>(const std::vector<at::Tensor>& parameters,
                                             const Group& group, const AveragingOptions&)>
      averaged_sgd = nullptr;
  std::function<std::unique_ptr<ShardedOptimizer>(const ParamGroups&, const MakeOptimizer&,
                                                  const Group& group)>
      sharded_optimizer = nullptr;
  std::optional<Checkpoints> checkpoints = {};
  // Collective over `group`. Throws, on every rank, where the parts that are given differ.
  std::function<void(const TrainingState& parts, const Group& group)> check_equal = nullptr;
  // Collective over `group`. Returns what a gather returns, in rank order; otherwise nothing.
  std::function<std::vector<at::Tensor>(const ProgramCollective&, const Group& group)> collective =
      nullptr;
  // Local. Prints a line on rank 0 of the group, and nothing on the others.
  std::function<void(const std::string& line, const Group& group)> print_on_rank_0 = nullptr;
  // Local. Parts of 0, 1, ..., size - 1 in random order, by their shares, of sum 1.
  std::function<std::vector<std::vector<int64_t>>(int64_t size, const std::vector<double>& shares,
                                                  uint64_t seed)>
      random_split = nullptr;
};

// For programs: the part of `here`'s subject, or Unsupported where that part is empty. wrap is
// collective over the group, by default the whole world's. Its replica's buckets are recorded
// whenever they change. Models are moved to the rank's device; forwards take inputs there and bring
// outputs back.
std::unique_ptr<Replica> wrap(RankContext& here, std::shared_ptr<Model> model,
                              const WrapOptions& options);
std::unique_ptr<Replica> wrap(RankContext& here, std::shared_ptr<Model> model,
                              const WrapOptions& options, const Group& group);
std::unique_ptr<Shard> shard(RankContext& here, const ShardOptions& options);
std::unique_ptr<AveragedSgd> averaged_sgd(RankContext& here,
                                          const std::vector<at::Tensor>& parameters,
                                          const AveragingOptions& options);
std::unique_ptr<ShardedOptimizer> sharded_optimizer(RankContext& here, const ParamGroups& groups,
                                                    const MakeOptimizer& make, const Group& group);
const NormLayers& norm_layers(RankContext& here);
const Checkpoints& checkpoints(RankContext& here);
void check_equal(RankContext& here, const TrainingState& parts);
// Over the whole world; tensors are the program's, on whatever device they are.
std::vector<at::Tensor> collective(RankContext& here, const ProgramCollective& call);
std::vector<std::vector<int64_t>> random_split(RankContext& here, int64_t size,
                                               const std::vector<double>& shares, uint64_t seed);
// Over the whole world unless a group is given.
std::shared_ptr<Model> sync_batch_norm(RankContext& here, const NormOptions& options);
std::shared_ptr<Model> sync_batch_norm(RankContext& here, const NormOptions& options,
                                       const Group& group);

}  // namespace lockstep
