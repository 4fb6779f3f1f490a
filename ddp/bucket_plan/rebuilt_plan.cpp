#include "ddp/bucket_plan/rebuilt_plan.h"

#include "ddp/consistency/agreement.h"

#include <torch/torch.h>

#include <algorithm>
#include <string>

namespace lockstep {

namespace {

std::string text_of(const BucketPlan& plan) {
  std::string text;
  for (const PlannedBucket& bucket : plan) {
    text += '[';
    for (const std::size_t index : bucket.gradients) text += ' ' + std::to_string(index);
    text += " ]";
  }
  return text;
}

std::vector<std::size_t> order_of_completion(const std::vector<std::size_t>& arrivals,
                                             std::size_t count) {
  std::vector<std::size_t> order;
  std::vector<bool> seen(count, false);
  for (auto each = arrivals.rbegin(); each != arrivals.rend(); ++each) {
    if (!seen[*each]) order.push_back(*each);
    seen[*each] = true;
  }
  std::reverse(order.begin(), order.end());
  for (std::size_t index = 0; index < count; ++index) {
    if (!seen[index]) order.push_back(index);
  }
  return order;
}

}  // namespace

BucketPlan rebuilt_plan(Communicator& communicator, const std::vector<std::size_t>& arrivals,
                        const std::vector<GradientSize>& sizes,
                        const std::vector<std::int64_t>& bytes_caps) {
  const std::vector<std::size_t> mine = order_of_completion(arrivals, sizes.size());
  at::Tensor order = at::empty({static_cast<std::int64_t>(mine.size())}, at::kLong);
  auto* const words = order.data_ptr<std::int64_t>();
  std::copy(mine.begin(), mine.end(), words);
  Operation broadcast = communicator.start_broadcast(order, "broadcast of the order of gradients");
  communicator.wait(broadcast);
  BucketPlan plan = assign_buckets_in_order(sizes, bytes_caps,
                                            std::vector<std::size_t>(words, words + order.numel()));
  agree(communicator, {.properties = {{"the plan of gradient buckets", text_of(plan)}}});
  return plan;
}

}  // namespace lockstep
