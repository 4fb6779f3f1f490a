#include "ddp/reducer/layout.h"

#include <torch/torch.h>

#include <utility>

namespace lockstep {

Layout::Layout(BucketPlan wanted, const Parameters& parameters, BucketOptions options)
    : plan(std::move(wanted)), places(parameters.count()) {
  for (const PlannedBucket& bucket : plan) {
    if (parameters.sizes()[bucket.gradients.front()].sparse) {
      payloads.emplace_back(SparseSum(parameters[bucket.gradients.front()]));
    } else {
      payloads.emplace_back(Bucket(bucket, parameters.tensors(), options));
    }
    for (std::size_t slot = 0; slot < bucket.gradients.size(); ++slot) {
      places[bucket.gradients[slot]] = {payloads.size() - 1, slot};
    }
  }
}

void Layout::rebuild(BucketPlan wanted, const Parameters& parameters, BucketOptions options) {
  std::vector<bool> is_view(parameters.count(), false);
  for (std::size_t index = 0; index < parameters.count(); ++index) {
    const auto [payload, slot] = places[index];
    const auto* const bucket = std::get_if<Bucket>(&payloads[payload]);
    is_view[index] = bucket != nullptr && bucket->holds_gradient(slot, parameters[index]);
  }
  // The caller may have written gradients that are views, on its current stream.
  for (BucketPayload& payload : payloads) {
    if (auto* const bucket = std::get_if<Bucket>(&payload)) bucket->enter();
  }
  // Before the new buckets are allocated, or peak memory would hold both. Gradients that are views
  // keep their memory until they have moved.
  payloads.clear();
  *this = Layout(std::move(wanted), parameters, options);
  for (std::size_t index = 0; index < parameters.count(); ++index) {
    const auto [payload, slot] = places[index];
    if (is_view[index]) std::get<Bucket>(payloads[payload]).adopt(slot, parameters[index]);
  }
}

}  // namespace lockstep
