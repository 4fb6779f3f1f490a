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
  Compress(at::ScalarType dtype, std::string name) : dtype_(dtype), name_(std::move(name)) {}

  std::string description() const override { return name_ + "_compress"; }

  HookResult run(GradBucket& bucket, HookCollectives& collectives) override {
    const at::Tensor into = bucket.buffer();
    const at::Tensor sum = into.to(dtype_, /*non_blocking=*/false, /*copy=*/true);
    sum.div_(collectives.divisor());
    return HookResult([into, sum, all_reduce = collectives.all_reduce(sum)]() mutable {
      all_reduce.wait();
      return into.copy_(sum);
    });
  }

 private:
  at::ScalarType dtype_;
  std::string name_;
};

}  // namespace

std::shared_ptr<CommunicationHook> all_reduce_hook() {
  return std::make_shared<AllReduce>();
}

std::shared_ptr<CommunicationHook> fp16_compress_hook() {
  return std::make_shared<Compress>(at::kHalf, "fp16");
}

std::shared_ptr<CommunicationHook> bf16_compress_hook() {
  return std::make_shared<Compress>(at::kBFloat16, "bf16");
}

std::shared_ptr<CommunicationHook> noop_hook() {
  return std::make_shared<Noop>();
}

}  // namespace lockstep
