// Gradients averaged in buckets of equal size, with a mistake: what is left over for a last,
// smaller bucket stays where it is.
#include "subjects.h"

namespace {

constexpr int64_t kBucketElements = 4;

class Bucketed final : public lockstep::Replica {
 public:
  Bucketed(std::shared_ptr<lockstep::Model> model, lockstep::Group group)
      : model_(std::move(model)), group_(std::move(group)) {
    const torch::NoGradGuard no_grad;
    auto tensors = model_->parameters();
    for (const auto& buffer : model_->buffers()) tensors.push_back(buffer);
    for (const auto& tensor : tensors) {
      std::vector<at::Tensor> one{tensor};
      group_->broadcast(one)->wait();
    }
  }

  at::Tensor forward(const at::Tensor& input) override { return model_->forward(input); }

  void backward(const at::Tensor& loss) override {
    loss.backward();
    std::vector<at::Tensor> gradients, flat;
    for (const auto& parameter : model_->parameters())
      if (parameter.grad().defined()) gradients.push_back(parameter.grad());
    if (gradients.empty()) return;
    for (const auto& gradient : gradients) flat.push_back(gradient.flatten());
    const auto all = torch::cat(flat);
    const int64_t buckets = all.numel() / kBucketElements;  // The mistake: rounds down.
    for (int64_t bucket = 0; bucket < buckets; ++bucket) {
      std::vector<at::Tensor> part{all.narrow(0, bucket * kBucketElements, kBucketElements)};
      part.front().div_(group_->getSize());
      group_->allreduce(part)->wait();
    }
    int64_t begin = 0;
    for (auto& gradient : gradients) {
      gradient.copy_(all.narrow(0, begin, gradient.numel()).view_as(gradient));
      begin += gradient.numel();
    }
  }

 private:
  std::shared_ptr<lockstep::Model> model_;
  lockstep::Group group_;
};

}  // namespace

lockstep::Subject uneven_last_bucket() {
  return {.name = "uneven_last_bucket",
          .wrap = [](std::shared_ptr<lockstep::Model> model, const lockstep::Group& group,
                     const lockstep::WrapOptions& options) -> std::unique_ptr<lockstep::Replica> {
            if (lockstep::has_further(options))
              throw lockstep::Unsupported("the class has no options");
            return std::make_unique<Bucketed>(std::move(model), group);
          }};
}
