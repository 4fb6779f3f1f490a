#include "scenarios/subjects/lockstep_hooks.h"

#include "ddp/communication_hooks.h"
#include "ddp/power_sgd.h"
#include "train/collectives.h"
#include "train/post_local_sgd.h"

#include <torch/torch.h>

#include <cmath>
#include <limits>
#include <sstream>

namespace lockstep {

namespace {

// Sums in the order of the ranks, in memory of its own, behind two numbers that are not the
// bucket's. A bucket must say that it is the first of its pass, of which some may be left out; its
// gradients have the shapes of their parameters, but for complex ones that are sent in 16 bits.
class Gathered : public CommunicationHook {
 public:
  std::string description() const override { return "gathered"; }
  HookResult run(GradBucket& bucket, HookCollectives& collectives) override {
    TORCH_CHECK(bucket.is_first() || bucket.index() > last_, "bucket ", bucket.index(),
                " is the first of its pass, and does not say so");
    last_ = bucket.is_last() ? std::numeric_limits<std::size_t>::max() : bucket.index();
    const auto scaled =
        at::cat({at::ones({2}, bucket.buffer().options()), bucket.buffer() / collectives.divisor()})
            .slice(0, 2);
    bucket.set_buffer(scaled);
    const auto& first = bucket.gradients().front();
    TORCH_CHECK(first.numel() == 0 || first.const_data_ptr() == scaled.const_data_ptr(),
                "a gradient of bucket ", bucket.index(), " is no part of the buffer that was set");
    for (std::size_t i = 0; i < bucket.gradients().size(); ++i)
      TORCH_CHECK(at::elementSize(scaled.scalar_type()) < 4 ||
                      bucket.gradients()[i].sizes() == bucket.parameters()[i].sizes(),
                  "gradient ", i, " of bucket ", bucket.index(), " has another shape");
    return HookResult([parts = collectives.all_gather(bucket.buffer())]() mutable {
      at::Tensor sum;
      for (const auto& part : parts.wait_for_parts()) sum = sum.defined() ? sum + part : part;
      return sum;
    });
  }

 private:
  std::size_t last_ = std::numeric_limits<std::size_t>::max();  // the bucket before
};

class OwnWork : public CommunicationHook {
 public:
  explicit OwnWork(Group group) : group_(std::move(group)) {}
  std::string description() const override { return "own work"; }
  HookResult run(GradBucket& bucket, HookCollectives& collectives) override {
    std::vector<at::Tensor> sum{bucket.buffer() / collectives.divisor()};
    return HookResult(group_->allreduce(sum), sum.front());
  }

 private:
  const Group group_;
};

std::shared_ptr<CommunicationHook> inner(const HookOptions& options, const Group& group) {
  if (options.kind == HookKind::fp16_compress) return fp16_compress_hook();
  if (options.kind == HookKind::bf16_compress) return bf16_compress_hook();
  if (options.kind == HookKind::noop) return noop_hook();
  if (options.kind == HookKind::quantize) return quantize_hook(options.chunk);
  if (options.kind == HookKind::power_sgd)
    return std::make_shared<PowerSgd>(PowerSgdOptions{
        .matrix_approximation_rank = options.matrix_rank,
        .start_power_sgd_iter = options.start,
        .min_compression_rate = std::ldexp(1.0, static_cast<int>(options.compression_log2)),
        .use_error_feedback = options.use_error_feedback,
        .warm_start = options.warm_start,
        .random_seed = static_cast<std::uint64_t>(options.random_seed)});
  if (options.kind == HookKind::gathered) return std::make_shared<Gathered>();
  if (options.kind == HookKind::own_work) return std::make_shared<OwnWork>(group);
  return all_reduce_hook();
}

// Keeps what is around it together with it.
class Around : public CommunicationHook {
 public:
  Around(std::shared_ptr<CommunicationHook> outer, std::shared_ptr<CommunicationHook> inner)
      : outer_(std::move(outer)), inner_(std::move(inner)) {}
  std::string description() const override { return outer_->description(); }
  HookResult run(GradBucket& bucket, HookCollectives& collectives) override {
    return outer_->run(bucket, collectives);
  }
  CommunicationHook& inner() const { return *inner_; }

 private:
  const std::shared_ptr<CommunicationHook> outer_, inner_;
};

PowerSgd* found_in(CommunicationHook& hook) {
  const auto* const around = dynamic_cast<Around*>(&hook);
  return around != nullptr ? found_in(around->inner()) : dynamic_cast<PowerSgd*>(&hook);
}

PowerSgd& power_sgd_of(CommunicationHook& hook) {
  auto* const power_sgd = found_in(hook);
  if (power_sgd == nullptr) throw Unsupported("this communication hook keeps nothing");
  return *power_sgd;
}

}  // namespace

std::shared_ptr<CommunicationHook> hook_of(const HookOptions& options, const Group& group) {
  auto hook = inner(options, group);
  if (options.around == HookCompression::none) return hook;
  auto outer = options.around == HookCompression::fp16_compress ? fp16_compress_hook(hook)
                                                                : bf16_compress_hook(hook);
  return std::make_shared<Around>(std::move(outer), std::move(hook));
}

std::shared_ptr<CommunicationHook> hook_of(const LocalSgdOptions& options, const Group& group) {
  const auto hook = std::make_shared<PostLocalSgdHook>(PostLocalSgdOptions{
      .start_local_sgd_iter = options.start,
      .subgroup =
          options.subgroup_size == 0 ? nullptr : new_subgroups(group, options.subgroup_size)});
  hook->set_iter(options.passes_before);
  return hook;
}

at::Tensor left_out(CommunicationHook& hook, const at::Tensor& parameter) {
  return power_sgd_of(hook).left_out(parameter);
}

std::optional<Replica::Sent> sent(CommunicationHook& hook) {
  const auto* const power_sgd = found_in(hook);
  if (power_sgd == nullptr) return {};
  const auto [before, after] = power_sgd->sent();
  return Replica::Sent{.before = before, .after = after};
}

std::string save_hook(CommunicationHook& hook, const torch::nn::Module& module) {
  torch::serialize::OutputArchive archive;
  power_sgd_of(hook).save(archive, module);
  std::ostringstream bytes;
  archive.save_to(bytes);
  return bytes.str();
}

void load_hook(CommunicationHook& hook, const torch::nn::Module& module, const std::string& saved) {
  std::istringstream bytes(saved);
  torch::serialize::InputArchive archive;
  archive.load_from(bytes);
  power_sgd_of(hook).load(archive, module);
}

}  // namespace lockstep
