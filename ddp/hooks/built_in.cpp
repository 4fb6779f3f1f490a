#include "ddp/communication_hooks.h"

#include <torch/torch.h>

namespace lockstep {

namespace {

class AllReduce : public CommunicationHook {
 public:
  std::string description() const override { return "all_reduce"; }

  HookResult run(GradBucket& bucket, HookCollectives& collectives) override {
    const at::Tensor& sum = bucket.buffer();
    sum.mul_(1.0 / collectives.divisor());
    return HookResult([sum, all_reduce = collectives.all_reduce(sum)]() mutable {
      all_reduce.wait();
      return sum;
    });
  }
};

class Noop : public CommunicationHook {
 public:
  std::string description() const override { return "noop"; }
  HookResult run(GradBucket& bucket, HookCollectives&) override {
    return HookResult(bucket.buffer());
  }
};

// Divides before it sums, as PyTorch's does: a sum of many large gradients would overflow.
class Compress : public CommunicationHook {
 public:
  Compress(at::ScalarType dtype, std::string name, std::shared_ptr<CommunicationHook> hook)
      : dtype_(dtype), name_(std::move(name)), hook_(std::move(hook)) {}

  std::string description() const override {
    return name_ + "_compress" + (hook_ ? " of " + hook_->description() : "");
  }

  HookResult run(GradBucket& bucket, HookCollectives& collectives) override {
    const at::Tensor into = bucket.buffer();
    const at::Tensor sum = into.to(dtype_, /*non_blocking=*/false, /*copy=*/true);
    if (hook_) return run_inner(bucket, sum, collectives);
    sum.div_(collectives.divisor());
    return HookResult([into, sum, all_reduce = collectives.all_reduce(sum)]() mutable {
      all_reduce.wait();
      return into.copy_(sum);
    });
  }

 private:
  HookResult run_inner(GradBucket& bucket, const at::Tensor& rounded,
                       HookCollectives& collectives) {
    const at::Tensor into = bucket.buffer();
    bucket.set_buffer(rounded);
    const HookResult inner = hook_->run(bucket, collectives);
    const auto convert = [into, finish = inner.finish()] { return into.copy_(finish()); };
    return inner.work() ? HookResult(inner.work(), convert) : HookResult(convert);
  }

  at::ScalarType dtype_;
  std::string name_;
  std::shared_ptr<CommunicationHook> hook_;
};

}  // namespace

std::shared_ptr<CommunicationHook> all_reduce_hook() {
  return std::make_shared<AllReduce>();
}

std::shared_ptr<CommunicationHook> fp16_compress_hook(std::shared_ptr<CommunicationHook> hook) {
  return std::make_shared<Compress>(at::kHalf, "fp16", std::move(hook));
}

std::shared_ptr<CommunicationHook> bf16_compress_hook(std::shared_ptr<CommunicationHook> hook) {
  return std::make_shared<Compress>(at::kBFloat16, "bf16", std::move(hook));
}

std::shared_ptr<CommunicationHook> noop_hook() {
  return std::make_shared<Noop>();
}

}  // namespace lockstep
