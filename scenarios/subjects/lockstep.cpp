// Lockstep's own DistributedDataParallel, DistributedSampler and SyncBatchNorm, as a subject.
#include "ddp/buffer_hook.h"
#include "ddp/distributed_data_parallel.h"
#include "ddp/reducer/flag.h"
#include "ddp/sync_batch_norm.h"
#include "harness/rank/rank_context.h"
#include "harness/worlds/subject.h"
#include "scenarios/subjects/lockstep_hooks.h"
#include "scenarios/subjects/lockstep_loop.h"
#include "scenarios/subjects/lockstep_norm_layers.h"
#include "scenarios/subjects/lockstep_optimizers.h"
#include "scenarios/subjects/subjects.h"
#include "train/check_replicas_equal.h"
#include "train/collectives.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace lockstep {

template <>
struct OutputTensors<NestedOutputs> {
  static void visit(const NestedOutputs& output, auto&& each) {
    each(output.first);
    each(output.others);
  }
};

namespace {

DistributedDataParallelOptions translated(const WrapOptions& options, const Group& group) {
  DistributedDataParallelOptions out{.process_group = group,
                                     .init_sync = options.init_sync,
                                     .forward_sync_buffers = options.broadcast_buffers,
                                     .buffer_sync_lag = options.buffer_sync_lag,
                                     .check_replicas_every = options.further.check_replicas_every,
                                     .parameters_and_buffers_to_ignore = options.ignored,
                                     .delay_all_reduce_named_params = options.delayed,
                                     .param_to_hook_all_reduce = options.delayed_until};
  visit_compared_options(out, [&]<class Value>(const std::string& name, Value&& value) {
    if constexpr (std::is_same_v<Value, bool&>)
      for (const auto& each : WrapOptions::kSwitches)
        if (each.name == name) value = options.*each.value;
  });
  constexpr double kMebibyte = 1024.0 * 1024.0;
  if (options.bucket_cap_bytes != 0)
    out.bucket_cap_mb = static_cast<double>(options.bucket_cap_bytes) / kMebibyte;
  for (const auto cap : options.bucket_caps_bytes)
    out.bucket_cap_mb_list.push_back(static_cast<double>(cap) / kMebibyte);
  const auto& further = options.further;
  if (further.forward_sync_buffers || further.broadcast_buffers) {
    out.forward_sync_buffers = further.forward_sync_buffers;
    out.broadcast_buffers = further.broadcast_buffers;
  }
  if (further.broadcast_cap_bytes != 0)
    out.broadcast_cap_mb = static_cast<double>(further.broadcast_cap_bytes) / kMebibyte;
  if (further.timeout_ms) out.timeout = std::chrono::milliseconds(*further.timeout_ms);
  return out;
}

std::shared_ptr<CommunicationHook> hook_of(const WrapOptions& options, const Group& group) {
  if (options.hook) return hook_of(*options.hook, group);
  if (options.local_sgd) return hook_of(*options.local_sgd, group);
  return nullptr;
}

class JoinedCalls : public Joinable {
 public:
  JoinedCalls(BesideReplica& calls, size_t number)
      : calls_(calls), name_("calls " + std::to_string(number)) {
    calls_.tell = [this] { announce(); };
  }
  ~JoinedCalls() override { calls_.tell = nullptr; }
  std::string name() const override { return name_; }
  void shadow() override { calls_.shadow(); }
  void all_have_joined(int last_to_join) override { calls_.all_have_joined(last_to_join); }

 private:
  BesideReplica& calls_;
  const std::string name_;
};

class Wrapped : public Replica {
 public:
  Wrapped(std::shared_ptr<Model> model, const DistributedDataParallelOptions& options,
          std::shared_ptr<CommunicationHook> hook, const std::string& buffer_hook, int timed_passes)
      : group_(options.process_group),
        ignored_(options.parameters_and_buffers_to_ignore),
        hook_(std::move(hook)),
        ddp_(std::move(model), options),
        parameters_(trainable()) {
    if (timed_passes != 0) ddp_->set_runtime_logging_sample_rate(timed_passes);
    if (hook_) ddp_->register_comm_hook(hook_);
    if (!buffer_hook.empty())
      ddp_->register_buffer_hook(average_buffers_hook(), buffer_hook == "before_forward"
                                                             ? BufferHookPlace::before_forward
                                                             : BufferHookPlace::after_forward);
  }
  at::Tensor forward(const at::Tensor& input) override { return ddp_.forward(input); }
  std::vector<at::Tensor> outputs(const at::Tensor& input) override {
    return ddp_.forward(input, Model::AllOutputs());
  }
  NestedOutputs nested_outputs(const at::Tensor& input) override {
    return ddp_.forward(input, Model::Nested());
  }
  at::Tensor opaque_output(const at::Tensor& input) override {
    return ddp_.forward(input, Model::InOpaque()).output;
  }
  void no_sync(const std::function<void()>& body) override {
    const auto guard = ddp_.no_sync();
    body();
  }
  std::shared_ptr<void> no_sync() override { return std::make_shared<NoSyncGuard>(ddp_.no_sync()); }
  void parameters_changed_unreported() override {}
  void join(JoinKind kind, const std::function<void()>& steps,
            const std::vector<ShardedOptimizer*>& optimizers) override {
    join_beside(kind, steps, optimizers, {});
  }
  void join_beside(JoinKind kind, const std::function<void()>& steps,
                   const std::vector<ShardedOptimizer*>& optimizers,
                   const std::vector<BesideReplica*>& beside) override {
    std::vector<std::shared_ptr<Joinable>> joinables;
    for (auto* const each : optimizers) joinables.push_back(joinable_of(*each));
    for (auto* const each : beside)
      joinables.push_back(std::make_shared<JoinedCalls>(*each, joinables.size()));
    auto join = ddp_.join({.throw_on_early_termination = kind == JoinKind::throws,
                           .divide_by_initial_world_size = kind != JoinKind::live,
                           .enable = kind != JoinKind::disabled},
                          std::move(joinables));
    steps();
    join.finish();
  }
  void step_in_backward(std::shared_ptr<torch::optim::Optimizer> optimizer) override {
    ddp_->step_in_backward(std::move(optimizer));
  }
  void update_trainable_parameters() override {
    ddp_->update_trainable_parameters();
    parameters_ = trainable();
  }
  void update_process_group(const Group& group) override {
    group_ = group;
    ddp_->update_process_group(group);
    parameters_ = trainable();
  }
  void finish() override { ddp_->check_reduction_finished(); }
  void begin_anew() override { update_process_group(group_); }
  void report_failure(const std::string& sentence) override { ddp_->report_failure(sentence); }
  void check_equal(bool with_buffers) override {
    const GivesBack what_it_keeps(group_);
    check_replicas_equal(group_, {.model = &*ddp_, .buffers = with_buffers});
  }
  at::Tensor left_out(const at::Tensor& parameter) override {
    return lockstep::left_out(*hook_, parameter);
  }
  std::string save_hook() override { return lockstep::save_hook(*hook_, *ddp_->module); }
  void load_hook(const std::string& saved) override {
    lockstep::load_hook(*hook_, *ddp_->module, saved);
  }
  std::optional<Sent> sent() const override {
    return hook_ ? lockstep::sent(*hook_) : std::nullopt;
  }
  void remove_autograd_hooks() override { ddp_->remove_autograd_hooks(); }
  // A bucket's collective carries more than the gradients, the flag of ddp/reducer/pass_buckets.h;
  // where a hook has the bucket, the flag has one of its own.
  BucketLayout buckets() const override {
    BucketLayout layout;
    for (const auto& planned : ddp_->bucket_plan()) {
      auto& bucket = layout.buckets.emplace_back();
      const auto dtype = parameters_.at(planned.gradients.front()).value().scalar_type();
      const FlagForm flag(c10::toRealValueType(dtype), ddp_->logging_data().world_size);
      bucket.elements = hook_ ? 0 : flag.element_count();
      for (const auto index : planned.gradients) {
        bucket.parameters.push_back(parameters_.at(index).key());
        bucket.elements += parameters_.at(index).value().numel();
      }
    }
    return layout;
  }
  std::optional<ReplicaLog> log() const override {
    const auto data = ddp_->logging_data();
    return ReplicaLog{
        .bucket_sizes = data.bucket_sizes,
        .rebuilt_bucket_sizes = data.rebuilt_bucket_sizes,
        .rebuilt_per_bucket_param_indices = data.rebuilt_per_bucket_param_indices,
        .prev_iteration_grad_ready_order_indices = data.prev_iteration_grad_ready_order_indices,
        .has_rebuilt_buckets = data.has_rebuilt_buckets,
        .join_uneven_inputs = data.join_uneven_inputs,
        .iteration = data.iteration,
        .num_parameter_tensors = data.num_parameter_tensors,
        .total_parameter_size_bytes = data.total_parameter_size_bytes,
        .num_buckets_reduced = data.num_buckets_reduced,
        .unused_parameter_size = data.unused_parameter_size,
        .rank = data.rank,
        .world_size = data.world_size,
        .bucket_cap_bytes = data.bucket_cap_bytes,
        .switches = {{"broadcast_buffers", data.broadcast_buffers},
                     {"find_unused_parameters", data.find_unused_parameters},
                     {"gradient_as_bucket_view", data.gradient_as_bucket_view},
                     {"static_graph", data.static_graph},
                     {"has_sync_bn", data.has_sync_bn}},
        .dtypes = data.dtypes,
        .comm_hook = data.comm_hook,
        .error = data.error,
        .timed_iterations = data.timed_iterations,
        .times = {data.forward_compute_time.count(), data.backward_compute_time.count(),
                  data.backward_comm_time.count(), data.backward_compute_comm_overlap_time.count()},
        .average_times = {data.avg_forward_compute_time.count(),
                          data.avg_backward_compute_time.count(),
                          data.avg_backward_comm_time.count(),
                          data.avg_backward_compute_comm_overlap_time.count()}};
  }

 private:
  using Parameter = torch::OrderedDict<std::string, at::Tensor>::Item;
  std::vector<Parameter> trainable() const {
    std::vector<Parameter> out;
    std::set<const at::TensorImpl*> seen;
    for (const auto& parameter : ddp_->module->named_parameters()) {
      if (std::find(ignored_.begin(), ignored_.end(), parameter.key()) != ignored_.end()) continue;
      const bool is_new = seen.insert(parameter.value().unsafeGetTensorImpl()).second;
      if (is_new && parameter.value().requires_grad()) out.push_back(parameter);
    }
    return out;
  }

  Group group_;
  const std::vector<std::string> ignored_;
  const std::shared_ptr<CommunicationHook> hook_;
  DistributedDataParallel<Model> ddp_;
  std::vector<Parameter> parameters_;  // indexed by the plan
};

std::optional<std::chrono::milliseconds> timeout_of(const NormOptions& options) {
  if (!options.timeout_ms) return {};
  return std::chrono::milliseconds(*options.timeout_ms);
}

SyncBatchNormOptions translated(const NormOptions& options, const Group& group) {
  return {.num_features = options.channels,
          .eps = std::ldexp(1.0, static_cast<int>(options.eps_log2)),
          .momentum = momentum_of(options),
          .affine = options.affine,
          .track_running_stats = options.track_running_stats,
          .process_group = group,
          .timeout = timeout_of(options)};
}

class Normalising : public Model {
 public:
  explicit Normalising(SyncBatchNormOptions options)
      : norm_(register_module("norm", SyncBatchNorm(std::move(options)))) {}
  at::Tensor forward(const at::Tensor& input) override { return norm_->forward(input); }

 private:
  SyncBatchNorm norm_;
};

}  // namespace

Subject lockstep_subject() {
  return {.name = "lockstep",
          .wrap =
              [](std::shared_ptr<Model> model, const Group& group, const WrapOptions& options) {
                return std::make_unique<Wrapped>(std::move(model), translated(options, group),
                                                 hook_of(options, group), options.buffer_hook,
                                                 options.further.timed_passes);
              },
          .shard = lockstep_shard,
          .sync_batch_norm =
              [](const NormOptions& options, const Group& group) {
                return std::make_shared<Normalising>(translated(options, group));
              },
          .norm_layers = lockstep_norm_layers(),
          .averaged_sgd = lockstep_averaged_sgd,
          .sharded_optimizer = lockstep_sharded_optimizer,
          .checkpoints = lockstep_checkpoints(),
          .check_equal = lockstep_check_equal,
          .collective = lockstep_collective,
          .print_on_rank_0 = [](const std::string& line,
                                const Group& group) { print_rank_0(group, line); },
          .random_split = lockstep_random_split};
}

}  // namespace lockstep
