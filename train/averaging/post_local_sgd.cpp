#include "train/post_local_sgd.h"

#include "ddp/comm/communicator.h"
#include "ddp/errors.h"

#include <torch/torch.h>

namespace lockstep {

namespace {

std::unique_ptr<Communicator> communicator_of(
    const c10::intrusive_ptr<c10d::ProcessGroup>& subgroup) {
  return subgroup ? std::make_unique<Communicator>(subgroup, std::nullopt) : nullptr;
}

void check_not_negative(const std::string& what, std::int64_t value) {
  if (value < 0)
    throw UsageError("PostLocalSgdHook: " + what + " is " + std::to_string(value) +
                     ", expected at least 0");
}

}  // namespace

PostLocalSgdHook::PostLocalSgdHook(const PostLocalSgdOptions& options)
    : options_(options), subgroup_(communicator_of(options.subgroup)) {
  check_not_negative("start_local_sgd_iter", options_.start_local_sgd_iter);
}

PostLocalSgdHook::~PostLocalSgdHook() = default;

void PostLocalSgdHook::set_iter(std::int64_t iter) {
  check_not_negative("iter", iter);
  iter_ = iter;
  first_iter_ = iter;
  last_bucket_ = kNone;
}

// Subgroups may be of different sizes. A rank in another pass would issue other collectives.
std::string PostLocalSgdHook::description() const {
  return "post_local_sgd, start_local_sgd_iter " + std::to_string(options_.start_local_sgd_iter) +
         ", then " + (subgroup_ ? "within subgroups" : "no average") +
         (first_iter_ == 0 ? "" : ", continued at iter " + std::to_string(first_iter_));
}

HookResult PostLocalSgdHook::run(GradBucket& bucket, HookCollectives& collectives) {
  const bool begins_a_pass = bucket.index() <= last_bucket_;
  last_bucket_ = bucket.index();
  if (begins_a_pass) ++iter_;

  const at::Tensor gradients = bucket.buffer();
  if (iter_ > options_.start_local_sgd_iter) {
    return subgroup_ ? average_in_subgroup(gradients) : HookResult(gradients);
  }
  gradients.div_(collectives.divisor());
  return HookResult([gradients, sum = collectives.all_reduce(gradients)]() mutable {
    sum.wait();
    return gradients;
  });
}

// A Work, for which the instance waits: so an error of any of its peers ends the wait.
HookResult PostLocalSgdHook::average_in_subgroup(const at::Tensor& gradients) const {
  gradients.div_(subgroup_->world_size());
  std::vector<at::Tensor> sum = {subgroup_->where_it_travels(gradients)};
  auto work = options_.subgroup->allreduce(sum);
  return {std::move(work), [gradients, sum = sum.front()] {
            return sum.is_same(gradients) ? gradients : gradients.copy_(sum);
          }};
}

}  // namespace lockstep
