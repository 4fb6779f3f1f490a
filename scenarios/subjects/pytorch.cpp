// PyTorch's own torch.nn.parallel.DistributedDataParallel, in Python, around the model in C++, and
// its DistributedSampler; or the parts that a user's file of Python defines in their place.
//
// Not mapped: steps in backward, checkpoints, and what takes process groups of PyTorch's own making
// (post_localSGD_hook, averages in a hierarchy).
#include "harness/pytorch/pytorch.h"

#include "harness/pytorch/loaded.h"
#include "harness/rank/rank_context.h"
#include "harness/worlds/subject.h"
#include "scenarios/subjects/pytorch_optimizers.h"
#include "scenarios/subjects/pytorch_options.h"
#include "scenarios/subjects/subjects.h"

#include <torch/torch.h>

#include <utility>

namespace lockstep {

namespace {

pytorch::NamedTensors named(const torch::OrderedDict<std::string, at::Tensor>& tensors) {
  pytorch::NamedTensors out;
  for (const auto& each : tensors) out.emplace_back(each.key(), each.value());
  return out;
}

std::vector<std::string> layers_with_sparse_gradients(const Model& model) {
  std::vector<std::string> paths;
  for (const auto& each : model.named_modules("", /*include_self=*/false))
    if (const auto* const layer = each.value()->as<torch::nn::Embedding>();
        layer != nullptr && layer->options.sparse())
      paths.push_back(each.key());
  return paths;
}

pytorch::Model for_python(const std::shared_ptr<Model>& model) {
  return {.parameters = [model] { return named(model->named_parameters()); },
          .buffers = [model] { return named(model->named_buffers()); },
          .sparse = layers_with_sparse_gradients(*model),
          .is_training = [model] { return model->is_training(); },
          .forward =
              [model](const at::Tensor& input, const std::string& shape) {
                if (shape == "one" || shape == "opaque") return std::vector{model->forward(input)};
                return model->outputs(input);
              }};
}

// LibTorch's optimizers clear a gradient by detach_(), which a view of a bucket refuses, and
// Python's do not. A detached alias of the same memory is the same gradient for both.
void let_libtorch_clear(const Model& model) {
  for (const auto& parameter : model.parameters())
    if (auto& gradient = parameter.mutable_grad(); gradient.defined() && gradient.is_view())
      gradient = gradient.detach();
}

class ByPythonsDdp final : public Replica {
 public:
  ByPythonsDdp(const std::shared_ptr<Model>& model, const Group& group, const WrapOptions& options,
               const std::string& file)
      : model_(model), has_hook_(options.hook.has_value()) {
    if (const auto lacks = file.empty() ? std::string() : pytorch::loaded().lacks(file, "wrap");
        !lacks.empty())
      throw Unsupported(lacks);
    refuse_what_pytorch_lacks(options);
    if (file.empty()) refuse_waits_in_callbacks(options, group);
    const pytorch::WrapValues values{
        .file = file,
        .keywords = keywords_of(options),
        .ignored = options.ignored,
        .delayed = options.delayed,
        .delayed_until = options.delayed_until,
        .hook = options.hook ? values_of(*options.hook) : pytorch::Values()};
    wrapped_ = asked([&] { return pytorch::loaded().wrap(for_python(model), group, values); });
  }

  at::Tensor forward(const at::Tensor& input) override {
    return wrapped_->forward(input, "one")[0];
  }
  std::vector<at::Tensor> outputs(const at::Tensor& input) override {
    return wrapped_->forward(input, "list");
  }
  NestedOutputs nested_outputs(const at::Tensor& input) override {
    return nested(wrapped_->forward(input, "nested"));
  }
  at::Tensor opaque_output(const at::Tensor& input) override {
    return wrapped_->forward(input, "opaque")[0];
  }
  void backward(const at::Tensor& loss) override {
    wrapped_->backward(loss);
    let_libtorch_clear(*model_);
  }
  void no_sync(const std::function<void()>& steps) override {
    const auto guard = no_sync();
    steps();
  }
  std::shared_ptr<void> no_sync() override {
    return asked([&] { return wrapped_->no_sync(); });
  }
  void join(JoinKind kind, const std::function<void()>& steps,
            const std::vector<ShardedOptimizer*>& optimizers) override {
    if (optimizers.size() > 1) throw Unsupported("the plugin gives a join one optimizer at most");
    if (has_hook_) throw Unsupported("PyTorch's hooks divide by the world's size in a join too");
    asked([&] {
      wrapped_->join(word_of(kind), steps,
                     optimizers.empty() ? nullptr : &zero_of(*optimizers.front()));
    });
  }
  void update_process_group(const Group& group) override {
    asked([&] { wrapped_->update_process_group(group); });
  }
  void finish() override { wrapped_->finish(); }
  at::Tensor left_out(const at::Tensor& parameter) override {
    return asked([&] { return wrapped_->left_out(parameter); });
  }
  BucketLayout buckets() const override {
    BucketLayout layout;
    for (auto& bucket : wrapped_->buckets())
      layout.buckets.push_back(
          {.parameters = std::move(bucket.parameters), .elements = bucket.elements});
    return layout;
  }

 private:
  const std::shared_ptr<Model> model_;
  const bool has_hook_;
  std::unique_ptr<pytorch::Wrapped> wrapped_;
};

class ByPythonsSampler final : public Shard {
 public:
  explicit ByPythonsSampler(std::unique_ptr<pytorch::Sharded> sharded)
      : sharded_(std::move(sharded)) {}
  void set_epoch(int64_t epoch) override { sharded_->set_epoch(epoch); }
  std::vector<int64_t> draw() override {
    return asked([&] { return sharded_->draw(); });
  }

 private:
  const std::unique_ptr<pytorch::Sharded> sharded_;
};

std::unique_ptr<Shard> sharded(const ShardOptions& options, RankContext& here,
                               const std::string& file) {
  if (options.order != SampleOrder::own)
    throw Unsupported("PyTorch's DistributedSampler takes no order of the program's own");
  return asked([&] {
    return std::make_unique<ByPythonsSampler>(
        pytorch::loaded().shard(file, options.length, here.rank(), here.size(),
                                {{"shuffle", options.shuffle},
                                 {"drop_last", options.drop_last},
                                 {"pad", options.pad},
                                 {"constant_memory", options.constant_memory},
                                 {"seed", options.seed},
                                 {"through_loader", options.through_loader},
                                 {"batch_size", options.batch_size}}));
  });
}

// A model of one layer of Python's.
class ByPythonsLayer final : public Model {
 public:
  explicit ByPythonsLayer(std::unique_ptr<pytorch::Layer> layer) : layer_(std::move(layer)) {
    const auto norm = register_module("norm", std::make_shared<torch::nn::Module>());
    for (const auto& [name, tensor] : layer_->parameters()) norm->register_parameter(name, tensor);
    for (const auto& [name, tensor] : layer_->buffers()) norm->register_buffer(name, tensor);
  }
  at::Tensor forward(const at::Tensor& input) override {
    return layer_->forward(input, is_training());
  }

 private:
  const std::unique_ptr<pytorch::Layer> layer_;
};

std::shared_ptr<Model> normalising(const NormOptions& options, const Group& group,
                                   const std::string& file) {
  return asked([&] {
    return std::make_shared<ByPythonsLayer>(pytorch::loaded().sync_batch_norm(
        file, options.channels, group,
        {{"eps", std::ldexp(1.0, static_cast<int>(options.eps_log2))},
         {"momentum", momentum_of(options).value_or(-1)},  // below 0: None
         {"affine", options.affine},
         {"track_running_stats", options.track_running_stats}}));
  });
}

Subject subject_of_file(const std::string& name, const std::string& file) {
  return {
      .name = name,
      .wrap =
          [file](std::shared_ptr<Model> model, const Group& group, const WrapOptions& options) {
            return std::make_unique<ByPythonsDdp>(model, group, options, file);
          },
      .shard = [file](const ShardOptions& options,
                      RankContext& here) { return sharded(options, here, file); },
      .sync_batch_norm = [file](const NormOptions& options,
                                const Group& group) { return normalising(options, group, file); }};
}

}  // namespace

Subject pytorch_subject() {
  return {
      .name = "pytorch",
      .wrap =
          [](std::shared_ptr<Model> model, const Group& group, const WrapOptions& options) {
            return std::make_unique<ByPythonsDdp>(model, group, options, "");
          },
      .shard = [](const ShardOptions& options,
                  RankContext& here) { return sharded(options, here, ""); },
      .sync_batch_norm = [](const NormOptions&, const Group& group) -> std::shared_ptr<Model> {
        const auto refusal = pytorch::loaded().refusal_of_sync_batch_norm(group);
        throw Unsupported(refusal.empty()
                              ? "this subject does not use PyTorch's SyncBatchNorm on the CPU"
                              : "PyTorch: " + refusal);
      },
      .averaged_sgd = pytorch_averaged_sgd,
      .sharded_optimizer = pytorch_sharded_optimizer,
      .collective =
          [](const ProgramCollective& call, const Group& group) {
            const bool sums =
                call.reduction == ReductionKind::sum || call.reduction == ReductionKind::avg;
            if (call.kind != CollectiveKind::all_reduce || !sums || !call.ranks.empty())
              throw Unsupported("of torch.distributed's collectives only sums are called");
            if (call.timeout_ms)
              throw Unsupported("torch.distributed's collectives wait as long as their group");
            // Over Gloo, too, which has no sums of bool and of int16.
            if (!call.tensor.is_contiguous() || call.tensor.element_size() < 4 ||
                call.tensor.is_conj() || call.tensor.is_neg())
              throw Unsupported("only contiguous tensors of 32 and 64 bits are given to PyTorch");
            pytorch::loaded().all_reduce(call.tensor, word_of(call.reduction), group);
            return std::vector<at::Tensor>();
          },
      .random_split = [](auto size, auto& shares,
                         auto seed) { return pytorch::loaded().random_split(size, shares, seed); }};
}

SubjectPlugin pytorch_plugin() {
  return {.why_not = pytorch::why_not(), .load = pytorch::load};
}

SubjectFiles python_files() {
  return {.kind = "python",
          .plugin = pytorch_plugin(),
          .open = [](const std::string& name, const std::string& file) {
            pytorch::open(file);
            return subject_of_file(name, file);
          }};
}

}  // namespace lockstep
