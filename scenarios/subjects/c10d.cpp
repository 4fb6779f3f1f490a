// PyTorch's own reducer, c10d::Reducer of the LibTorch in use, driven as
// torch.nn.parallel.DistributedDataParallel (2.11) drives it from Python. Lockstep is compared with
// it, which shows where it differs on purpose (docs/semantics.md 0).
//
// Not supported: Python's join, communication hooks, mixed precision, ignored names, sparse
// gradients and devices other than the CPU.
#include "harness/worlds/subject.h"
#include "scenarios/subjects/subjects.h"

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/distributed/c10d/logger.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>
#include <torch/torch.h>

#include <algorithm>
#include <limits>
#include <unordered_map>
#include <utility>

namespace lockstep {

namespace {

constexpr size_t kBroadcastBytes = size_t{250} << 20;  // the most that one broadcast carries
constexpr size_t kUnlimited = static_cast<size_t>(std::numeric_limits<int64_t>::max());

using Names = std::unordered_map<const at::TensorImpl*, std::string>;

// Each parameter once, in the order of registration; a shared one under its first name.
std::vector<at::Tensor> trainable(const Model& model, Names& names) {
  std::vector<at::Tensor> out;
  for (const auto& parameter : model.named_parameters()) {
    const bool is_new = names.emplace(parameter->unsafeGetTensorImpl(), parameter.key()).second;
    if (is_new && parameter->requires_grad()) out.push_back(*parameter);
  }
  return out;
}

// The caps of the first bucket and of all others; equal if the case gives one.
struct Caps {
  int64_t first = c10d::kDefaultFirstBucketBytes;
  int64_t others = c10d::kDefaultBucketBytesCap;
};
Caps caps_of(const WrapOptions& options) {
  if (options.bucket_cap_bytes == 0) return {};
  return {options.bucket_cap_bytes, options.bucket_cap_bytes};
}

// Until the order in which gradients become ready is known there is one bucket per dtype. Without a
// static graph find_unused_parameters never rebuilds buckets, so it begins with the caps.
std::vector<size_t> first_caps(const WrapOptions& options) {
  if (options.static_graph || !options.find_unused_parameters) return {kUnlimited};
  const auto caps = caps_of(options);
  if (options.bucket_cap_bytes > 0) return {static_cast<size_t>(caps.others)};
  return {static_cast<size_t>(caps.first), static_cast<size_t>(caps.others)};
}

std::shared_ptr<c10d::Reducer> reducer_of(const std::vector<at::Tensor>& parameters,
                                          const Names& names, const Group& group,
                                          const WrapOptions& options) {
  const std::vector<bool> are_sparse(parameters.size(), false);
  auto buckets = std::get<0>(
      c10d::compute_bucket_assignment_by_size(parameters, first_caps(options), are_sparse));
  std::reverse(buckets.begin(), buckets.end());
  std::unordered_map<size_t, std::string> by_index;
  for (size_t i = 0; i < parameters.size(); ++i)
    by_index.emplace(i, names.at(parameters[i].unsafeGetTensorImpl()));
  const auto caps = caps_of(options);
  auto reducer = std::make_shared<c10d::Reducer>(
      parameters, std::move(buckets), group, are_sparse, caps.others,
      options.find_unused_parameters, options.gradient_as_bucket_view, std::move(by_index),
      caps.first, options.skip_all_reduce_unused_params, /*use_python_reducer=*/false,
      /*bucket_bytes_cap_list=*/std::vector<int64_t>{});
  if (options.static_graph) reducer->set_static_graph();
  return reducer;
}

class ByPyTorch : public Replica {
 public:
  ByPyTorch(std::shared_ptr<Model> model, Group group, const WrapOptions& options)
      : model_(std::move(model)), group_(std::move(group)), options_(options) {
    if (has_further(options))
      throw Unsupported(
          "c10d::Reducer has no init_sync, buffer_sync_lag, caps of single buckets, ignored names, "
          "delayed gradients and timeout");
    if (const auto* missing = options.missing_in_pytorch())
      throw Unsupported(std::string("PyTorch 2.11's reducer has no ") + missing);
    const auto parameters = trainable(*model_, names_);
    TORCH_CHECK(!parameters.empty(), "no parameter requires a gradient");
    listed_buffers_ = model_->buffers();
    c10d::verify_params_across_processes(group_, parameters, {});
    broadcast_state();
    reducer_ = reducer_of(parameters, names_, group_, options_);
    logger_ = std::make_shared<c10d::Logger>(reducer_);
    reducer_->set_logger(logger_);
  }

  at::Tensor forward(const at::Tensor& input) override {
    before_forward();
    return after_forward(model_->forward(input));
  }

  void no_sync(const std::function<void()>& body) override {
    struct Restored {
      bool& value;
      const bool before = value;
      ~Restored() { value = before; }
    } const restored{synchronises_};
    synchronises_ = false;
    body();
  }

  BucketLayout buckets() const override {
    BucketLayout layout;
    for (const auto& bucket : reducer_->get_grad_buckets(/*return_zero_tensors=*/false)) {
      auto& entry = layout.buckets.emplace_back();
      entry.elements = bucket.getBuffer().numel();
      for (const auto& parameter : bucket.getParameters())
        entry.parameters.push_back(names_.at(parameter.unsafeGetTensorImpl()));
    }
    return layout;
  }

 private:
  bool reduces() const { return torch::GradMode::is_enabled() && synchronises_; }

  void broadcast(const std::vector<at::Tensor>& tensors) {
    if (!tensors.empty()) c10d::broadcast_coalesced(group_, tensors, kBroadcastBytes);
  }

  // The option that turns off the broadcast of buffers also turns off this one.
  void broadcast_state() {
    std::vector<at::Tensor> state;
    for (const auto& parameter : model_->parameters()) state.push_back(parameter.detach());
    if (options_.broadcast_buffers)
      for (const auto& buffer : listed_buffers_) state.push_back(buffer.detach());
    broadcast(state);
  }

  // The list made last decides whether there are any; the module gives those that are sent.
  void broadcast_buffers() {
    if (!options_.broadcast_buffers || !was_synchronised_ || listed_buffers_.empty()) return;
    const torch::NoGradGuard no_grad;
    listed_buffers_ = model_->buffers();
    broadcast(listed_buffers_);
  }

  void before_forward() {
    if (reduces()) reducer_->prepare_for_forward();
    if (torch::GradMode::is_enabled()) reducer_->rebuild_buckets();
    broadcast_buffers();
  }

  at::Tensor after_forward(const at::Tensor& output) {
    const bool searches = options_.find_unused_parameters && !options_.static_graph;
    was_synchronised_ = reduces();
    if (was_synchronised_)
      reducer_->prepare_for_backward(searches ? std::vector{output} : std::vector<at::Tensor>{});
    const bool delays = options_.static_graph && !*is_delayed_;
    return searches || delays ? passed_on(output, delays) : output;
  }

  // Python's sink: a copy of the output, whose gradient hook fires when the first backward pass of
  // a static graph begins. That pass is reduced when it is over.
  at::Tensor passed_on(const at::Tensor& output, bool delays) const {
    if (!output.requires_grad()) return output;
    const auto copy = output.clone();
    if (!delays) return copy;
    const std::weak_ptr<c10d::Reducer> reducer = reducer_;
    copy.register_hook([reducer, is_delayed = is_delayed_](const at::Tensor&) {
      const auto held = reducer.lock();
      if (!held || std::exchange(*is_delayed, true)) return;
      torch::autograd::Engine::get_default_engine().queue_callback(
          [held] { held->delay_all_reduce(); });
    });
    return copy;
  }

  const std::shared_ptr<Model> model_;
  const Group group_;
  const WrapOptions options_;
  Names names_;
  std::vector<at::Tensor> listed_buffers_;
  std::shared_ptr<c10d::Reducer> reducer_;
  std::shared_ptr<c10d::Logger> logger_;  // the reducer has it weakly, and needs it to throw
  bool synchronises_ = true;              // false inside no_sync
  bool was_synchronised_ = true;          // the last forward
  const std::shared_ptr<bool> is_delayed_ = std::make_shared<bool>(false);
};

}  // namespace

Subject c10d_subject() {
  return {.name = "c10d",
          .wrap =
              [](std::shared_ptr<Model> model, const Group& group, const WrapOptions& options) {
                return std::make_unique<ByPyTorch>(std::move(model), group, options);
              },
          .shard = nullptr,
          .sync_batch_norm = nullptr};
}

}  // namespace lockstep
