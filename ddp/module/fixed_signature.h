#pragma once

#include "ddp/distributed_data_parallel.h"

#include <torch/nn/cloneable.h>

#include <memory>
#include <utility>

namespace lockstep {

// A module whose forward has one signature, for torch::nn::Sequential and AnyModule, which reject a
// module whose forward is a template:
//
//   torch::nn::Sequential net(fixed_signature<at::Tensor(at::Tensor)>(ddp), torch::nn::ReLU());
//
// Its child `module` is the DistributedDataParallel. Its forward calls DistributedDataParallel's.
template <class M, class Signature>
class FixedSignature;

template <class M, class Result, class... Args>
class FixedSignature<M, Result(Args...)> : public torch::nn::Module {
 public:
  explicit FixedSignature(DistributedDataParallel<M> ddp) : ddp_(std::move(ddp)) {
    this->register_module("module", ddp_.ptr());
  }

  Result forward(Args... args) { return ddp_.forward(std::forward<Args>(args)...); }

 private:
  DistributedDataParallel<M> ddp_;
};

template <class Signature, class M>
std::shared_ptr<FixedSignature<M, Signature>> fixed_signature(DistributedDataParallel<M> ddp) {
  return std::make_shared<FixedSignature<M, Signature>>(std::move(ddp));
}

}  // namespace lockstep
