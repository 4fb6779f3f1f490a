#include "harness/worlds/subject.h"

#include "harness/rank/rank_context.h"

namespace lockstep {

namespace {

[[noreturn]] void refuse(const Subject& subject, const std::string& what) {
  throw Unsupported("the subject '" + subject.name + "' does not " + what);
}

template <class Pointer>
Pointer made(const Subject& subject, const char* part, Pointer value) {
  if (!value)
    throw std::invalid_argument("the subject '" + subject.name + "' returned null from its part " +
                                part);
  return value;
}

// The children of `model`, by name, on the rank's device.
class Moved final : public Model {
 public:
  Moved(std::shared_ptr<Model> model, const c10::Device& device)
      : model_(std::move(model)), device_(device) {
    model_->to(device_);
    for (const auto& child : model_->named_children()) register_module(child.key(), child.value());
  }

  at::Tensor forward(const at::Tensor& input) override {
    return model_->forward(input.to(device_)).to(input.device());
  }

 private:
  const std::shared_ptr<Model> model_;
  const c10::Device device_;
};

// Records the buckets before a backward pass can issue anything.
class Watched final : public Replica {
 public:
  Watched(std::unique_ptr<Replica> replica, RankContext& here)
      : replica_(std::move(replica)), here_(here) {
    record_buckets();
  }

  at::Tensor forward(const at::Tensor& input) override {
    auto output = replica_->forward(input.to(here_.device()));
    record_buckets();
    return output.to(input.device());
  }
  std::vector<at::Tensor> outputs(const at::Tensor& input) override {
    auto outputs = replica_->outputs(input.to(here_.device()));
    record_buckets();
    for (auto& output : outputs) output = output.to(input.device());
    return outputs;
  }
  NestedOutputs nested_outputs(const at::Tensor& input) override {
    auto outputs = replica_->nested_outputs(input.to(here_.device()));
    record_buckets();
    return input.is_cpu() && !here_.device().is_cpu() ? on_cpu(outputs) : outputs;
  }
  at::Tensor opaque_output(const at::Tensor& input) override {
    auto output = replica_->opaque_output(input.to(here_.device()));
    record_buckets();
    return output;
  }
  void backward(const at::Tensor& loss) override { replica_->backward(loss); }
  void no_sync(const std::function<void()>& steps) override { replica_->no_sync(steps); }
  std::shared_ptr<void> no_sync() override { return replica_->no_sync(); }
  void join(JoinKind kind, const std::function<void()>& steps,
            const std::vector<ShardedOptimizer*>& optimizers) override {
    replica_->join(kind, steps, optimizers);
  }
  void join_beside(JoinKind kind, const std::function<void()>& steps,
                   const std::vector<ShardedOptimizer*>& optimizers,
                   const std::vector<BesideReplica*>& beside) override {
    replica_->join_beside(kind, steps, optimizers, beside);
  }
  void step_in_backward(std::shared_ptr<torch::optim::Optimizer> optimizer) override {
    replica_->step_in_backward(std::move(optimizer));
  }
  void parameters_changed_unreported() override { replica_->parameters_changed_unreported(); }
  void update_trainable_parameters() override {
    replica_->update_trainable_parameters();
    record_buckets();
  }
  void update_process_group(const Group& group) override {
    replica_->update_process_group(group);
    record_buckets();
  }
  void finish() override { replica_->finish(); }
  void begin_anew() override {
    replica_->begin_anew();
    record_buckets();
  }
  void report_failure(const std::string& sentence) override { replica_->report_failure(sentence); }
  void check_equal(bool with_buffers) override { replica_->check_equal(with_buffers); }
  at::Tensor left_out(const at::Tensor& parameter) override {
    const auto left_out = replica_->left_out(parameter);
    return left_out.defined() ? left_out.cpu() : left_out;
  }
  std::string save_hook() override { return replica_->save_hook(); }
  void load_hook(const std::string& saved) override { replica_->load_hook(saved); }
  std::optional<Sent> sent() const override { return replica_->sent(); }
  void remove_autograd_hooks() override { replica_->remove_autograd_hooks(); }
  BucketLayout buckets() const override { return replica_->buckets(); }
  std::optional<ReplicaLog> log() const override { return replica_->log(); }

 private:
  static NestedOutputs on_cpu(const NestedOutputs& outputs) {
    auto all = listed(outputs);
    for (auto& each : all) each = each.cpu();
    return nested(all);
  }

  void record_buckets() {
    auto now = replica_->buckets();
    if (now == recorded_) return;
    here_.record(now);
    recorded_ = std::move(now);
  }

  const std::unique_ptr<Replica> replica_;
  RankContext& here_;
  BucketLayout recorded_;
};

}  // namespace

NestedOutputs nested(const std::vector<at::Tensor>& outputs) {
  NestedOutputs out{.first = outputs.front(), .others = {{"none", std::nullopt}}};
  if (outputs.size() > 1) out.others["some"] = {outputs[1], {outputs.begin() + 2, outputs.end()}};
  return out;
}

std::vector<at::Tensor> listed(const NestedOutputs& outputs) {
  std::vector<at::Tensor> all{outputs.first};
  for (const auto& [name, part] : outputs.others) {
    if (!part) continue;
    all.push_back(part->first);
    all.insert(all.end(), part->second.begin(), part->second.end());
  }
  return all;
}

std::unique_ptr<Replica> wrap(RankContext& here, std::shared_ptr<Model> model,
                              const WrapOptions& options) {
  if (!here.subject().wrap) refuse(here.subject(), "wrap models");
  return wrap(here, std::move(model), options, here.group());
}

std::unique_ptr<Replica> wrap(RankContext& here, std::shared_ptr<Model> model,
                              const WrapOptions& options, const Group& group) {
  if (!here.subject().wrap) refuse(here.subject(), "wrap models");
  if (!here.device().is_cpu()) model->to(here.device());
  auto replica = here.subject().wrap(std::move(model), group, options);
  return std::make_unique<Watched>(made(here.subject(), "wrap", std::move(replica)), here);
}

std::unique_ptr<Shard> shard(RankContext& here, const ShardOptions& options) {
  if (!here.subject().shard) refuse(here.subject(), "shard datasets");
  return made(here.subject(), "shard", here.subject().shard(options, here));
}

std::unique_ptr<AveragedSgd> averaged_sgd(RankContext& here,
                                          const std::vector<at::Tensor>& parameters,
                                          const AveragingOptions& options) {
  if (!here.subject().averaged_sgd) refuse(here.subject(), "average models");
  return made(here.subject(), "averaged_sgd",
              here.subject().averaged_sgd(parameters, here.group(), options));
}

std::unique_ptr<ShardedOptimizer> sharded_optimizer(RankContext& here, const ParamGroups& groups,
                                                    const MakeOptimizer& make, const Group& group) {
  if (!here.subject().sharded_optimizer) refuse(here.subject(), "divide optimizers over ranks");
  return made(here.subject(), "sharded_optimizer",
              here.subject().sharded_optimizer(groups, make, group));
}

const Checkpoints& checkpoints(RankContext& here) {
  if (!here.subject().checkpoints) refuse(here.subject(), "save checkpoints");
  return *here.subject().checkpoints;
}

void check_equal(RankContext& here, const TrainingState& parts) {
  if (!here.subject().check_equal) refuse(here.subject(), "compare optimizers and samplers");
  here.subject().check_equal(parts, here.group());
}

std::vector<at::Tensor> collective(RankContext& here, const ProgramCollective& call) {
  if (!here.subject().collective) refuse(here.subject(), "send a program's own numbers");
  return here.subject().collective(call, here.group());
}

std::vector<std::vector<int64_t>> random_split(RankContext& here, int64_t size,
                                               const std::vector<double>& shares, uint64_t seed) {
  if (!here.subject().random_split) refuse(here.subject(), "split datasets");
  return here.subject().random_split(size, shares, seed);
}

const NormLayers& norm_layers(RankContext& here) {
  if (!here.subject().norm_layers) refuse(here.subject(), "convert layers of BatchNorm");
  return *here.subject().norm_layers;
}

std::shared_ptr<Model> sync_batch_norm(RankContext& here, const NormOptions& options) {
  // Before the ranks rendezvous.
  if (!here.subject().sync_batch_norm) return sync_batch_norm(here, options, Group());
  return sync_batch_norm(here, options, here.group());
}

std::shared_ptr<Model> sync_batch_norm(RankContext& here, const NormOptions& options,
                                       const Group& group) {
  if (!here.subject().sync_batch_norm)
    refuse(here.subject(), "normalise over the batches of all ranks");
  auto model =
      made(here.subject(), "sync_batch_norm", here.subject().sync_batch_norm(options, group));
  if (here.device().is_cpu()) return model;
  return std::make_shared<Moved>(std::move(model), here.device());
}

}  // namespace lockstep
