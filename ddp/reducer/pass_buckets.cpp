#include "ddp/reducer/pass_buckets.h"

#include "ddp/errors.h"

#include <torch/torch.h>

#include <utility>
#include <variant>

namespace lockstep {

PassBuckets::PassBuckets(Layout& layout, const Parameters& parameters, BucketOptions options,
                         Communicator& communicator, const ArrivalStreams& streams,
                         CommunicationHook* hook, int divisor, bool is_first_pass)
    : layout_(layout),
      parameters_(parameters),
      options_(options),
      communicator_(communicator),
      streams_(streams),
      divisor_(divisor),
      divisor_of_dense_(hook != nullptr ? 1 : divisor),
      readiness_(layout.plan),
      launcher_(layout.payloads, parameters, communicator, hook, divisor, is_first_pass),
      postponed_(layout.plan.size()) {}

void PassBuckets::pack(std::size_t index, GradientArrival arrival) {
  const auto [payload, slot] = layout_.places[index];
  const at::Tensor& parameter = parameters_[index];
  auto* const bucket = std::get_if<Bucket>(&layout_.payloads[payload]);
  if (launcher_.is_skipped(payload)) {
    // Nothing to do but to count.
  } else if (bucket == nullptr) {
    streams_.wait_for_producer_stream(index, parameter.grad());
    auto& sum = std::get<SparseSum>(layout_.payloads[payload]);
    sum.pack(arrival == GradientArrival::missing ? at::Tensor() : parameter.grad(), divisor_);
  } else if (arrival == GradientArrival::missing) {
    bucket->pack_zeros(slot);
  } else {
    streams_.wait_for_producer_stream(index, parameter.grad());
    if (arrival == GradientArrival::unused) kept_[index] = bucket->value_to_keep(slot, parameter);
    if (!bucket->pack(slot, parameter, divisor_of_dense_)) postponed_[payload].push_back(slot);
  }
  if (!readiness_.mark_ready(index)) return;
  if (bucket != nullptr && !launcher_.is_skipped(payload)) complete(payload, *bucket);
  launcher_.bucket_ready(payload);
}

void PassBuckets::read_no_more_gradients() {
  for (std::size_t payload = 0; payload < postponed_.size(); ++payload) {
    for (const std::size_t slot : std::exchange(postponed_[payload], {})) {
      std::get<Bucket>(layout_.payloads[payload]).pack_zeros(slot);
    }
  }
}

void PassBuckets::complete(std::size_t bucket_index, Bucket& bucket) {
  if (postponed_[bucket_index].empty()) return;
  for (const std::size_t each : bucket.gradients()) {
    streams_.wait_for_producer_stream(each, parameters_[each].grad());
  }
  bucket.copy_all(std::exchange(postponed_[bucket_index], {}), parameters_.tensors(),
                  divisor_of_dense_);
}

void PassBuckets::release_last(const PassFlag& flag) {
  if (launcher_.has_launched_all()) return;
  std::visit([&](auto& last) { last.write_flag(flag); }, layout_.payloads.back());
  launcher_.release_last();
}

void PassBuckets::wait_for_sums() {
  launcher_.wait_for_all();
  for (std::size_t payload = 0; payload < layout_.payloads.size(); ++payload) {
    auto* const sum = std::get_if<SparseSum>(&layout_.payloads[payload]);
    if (sum != nullptr && !launcher_.is_skipped(payload)) sum->wait_for_sizes(communicator_);
  }
}

bool PassBuckets::flag_is_well() const {
  return std::visit([](const auto& last) { return last.flag_is_well(); }, layout_.payloads.back());
}

bool PassBuckets::flag_comes_late() const {
  const auto* const bucket = std::get_if<Bucket>(&layout_.payloads.back());
  return bucket != nullptr && communicator_.streams_wait(bucket->flat().device());
}

const at::Tensor& PassBuckets::flag() const {
  return std::get<Bucket>(layout_.payloads.back()).flag();
}

PassBuckets::Written PassBuckets::write_back(const std::vector<bool>& used_somewhere, bool writes) {
  Written written;
  for (std::size_t payload = 0; payload < layout_.payloads.size(); ++payload) {
    const std::vector<std::size_t>& gradients = layout_.plan[payload].gradients;
    for (const std::size_t index : gradients) {
      if (!used_somewhere[index]) written.unused_bytes += parameters_.sizes()[index].bytes();
    }
    if (launcher_.is_skipped(payload)) continue;
    ++written.buckets_reduced;
    if (auto* const bucket = std::get_if<Bucket>(&layout_.payloads[payload])) {
      bucket->enter();
      if (writes) unpack(payload, *bucket, used_somewhere, written.first_error);
      continue;
    }
    auto& sum = std::get<SparseSum>(layout_.payloads[payload]);
    if (!writes) {
      sum.take_part(communicator_);
      continue;
    }
    const at::Tensor average = sum.finish(communicator_);
    if (average.defined() && used_somewhere[gradients.front()]) {
      at::Tensor parameter = parameters_[gradients.front()];
      parameter.mutable_grad() = average;
    }
  }
  return written;
}

void PassBuckets::unpack(std::size_t bucket_index, Bucket& bucket,
                         const std::vector<bool>& used_somewhere, std::exception_ptr& first_error) {
  const std::vector<std::size_t>& gradients = layout_.plan[bucket_index].gradients;
  for (std::size_t slot = 0; slot < gradients.size(); ++slot) {
    const std::size_t index = gradients[slot];
    at::Tensor parameter = parameters_[index];
    if (!used_somewhere[index]) {
      const auto kept = kept_.find(index);
      if (kept != kept_.end() && kept->second.defined()) parameter.mutable_grad() = kept->second;
      continue;
    }
    try {
      streams_.wait_for_producer_stream(index, parameter.grad());
      bucket.unpack(slot, parameter);
    } catch (const UsageError&) {
      if (!first_error) first_error = std::current_exception();
    }
  }
}

void PassBuckets::settle() {
  for (BucketPayload& payload : layout_.payloads) {
    if (auto* const bucket = std::get_if<Bucket>(&payload)) bucket->settle();
  }
}

}  // namespace lockstep
