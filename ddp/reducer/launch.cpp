#include "ddp/reducer/launch.h"

#include "ddp/errors.h"

#include <torch/torch.h>

namespace lockstep {

namespace {

// Calls the hook's own code. An exception of the hook ends the instance on all ranks: its peers
// would wait for collectives that this rank does not issue.
template <class Call>
auto guarded(const Communicator& communicator, const std::string& description, const Call& call) {
  try {
    return call();
  } catch (const CommunicationError&) {
    throw;
  } catch (const std::exception& error) {
    communicator.fail(description, first_line(error));
  }
}

std::string text_of(const at::Tensor& tensor) {
  if (!tensor.defined()) return "an undefined tensor";
  return c10::str(tensor.numel(), " elements of ", c10::toString(tensor.scalar_type()), " on ",
                  tensor.device());
}

}  // namespace

void BucketLauncher::launch_up_to(std::size_t end) {
  for (; next_ < end && is_ready_[next_]; ++next_) {
    if (!is_skipped_[next_]) launch(next_);
  }
}

// The bucket is full, and all before it have been launched.
void BucketLauncher::launch(std::size_t bucket_index) {
  auto* const bucket = std::get_if<Bucket>(&payloads_[bucket_index]);
  if (bucket == nullptr) {
    std::get<SparseSum>(payloads_[bucket_index]).start(communicator_, bucket_index);
    return;
  }
  bucket->settle();
  if (hook_ != nullptr) {
    run_hook(bucket_index, *bucket);
    return;
  }
  launched_.push_back(communicator_.start_sum(
      bucket->flat(), "all-reduce of gradient bucket " + std::to_string(bucket_index)));
}

std::string BucketLauncher::text_of_hook(std::size_t bucket_index) const {
  return "communication hook '" + hook_->description() + "' for gradient bucket " +
         std::to_string(bucket_index);
}

void BucketLauncher::run_hook(std::size_t bucket_index, const Bucket& bucket) {
  const at::NoGradGuard no_grad;  // create_graph leaves grad mode on in hooks
  std::vector<at::Tensor> parameters;
  for (const std::size_t index : bucket.gradients()) parameters.push_back(parameters_[index]);
  GradBucket given(bucket_index, hooked_.empty(), bucket_index + 1 == payloads_.size(),
                   bucket.values(), bucket.places(), std::move(parameters));
  HookCollectives collectives(communicator_, divisor_,
                              "gradient bucket " + std::to_string(bucket_index), is_first_pass_);
  hooked_.emplace_back(bucket_index, guarded(communicator_, text_of_hook(bucket_index),
                                             [&] { return hook_->run(given, collectives); }));
}

void BucketLauncher::finish_hook(std::size_t bucket_index, const HookResult& result) {
  const at::NoGradGuard no_grad;
  const std::string description = text_of_hook(bucket_index);
  const at::Tensor values = std::get<Bucket>(payloads_[bucket_index]).values();
  if (result.work()) {
    Operation operation = communicator_.follow(result.work(), values, "Work of the " + description);
    communicator_.wait(operation);
  }
  const at::Tensor average = guarded(communicator_, description, result.finish());
  if (!average.defined() || average.numel() != values.numel() ||
      average.scalar_type() != values.scalar_type() || average.device() != values.device()) {
    communicator_.fail(description,
                       "it returned " + text_of(average) + ", expected " + text_of(values));
  }
  if (average.is_alias_of(values) && average.const_data_ptr() == values.const_data_ptr()) return;
  values.view_as(average).copy_(average);
}

void BucketLauncher::bucket_ready(std::size_t bucket_index) {
  is_ready_.at(bucket_index) = true;
  launch_up_to(payloads_.size() - 1);
}

void BucketLauncher::release_last() {
  launch_up_to(payloads_.size());
  const auto* const last = std::get_if<Bucket>(&payloads_.back());
  if (hook_ != nullptr && last != nullptr) {
    launched_.push_back(communicator_.start_sum(last->flag(), "all-reduce of the error flag"));
  }
}

void BucketLauncher::wait_for_all() {
  for (const auto& [bucket_index, result] : hooked_) finish_hook(bucket_index, result);
  for (Operation& operation : launched_) communicator_.wait(operation);
}

}  // namespace lockstep
