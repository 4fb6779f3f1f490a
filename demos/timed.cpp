#include "demos/timed.h"

#include "harness/base/text.h"
#include "scenarios/cases/tensors.h"

#include <algorithm>
#include <numeric>

namespace lockstep::demos {

namespace {

constexpr const char *kTimes = "times", *kArrivals = "arrivals", *kGradients = "gradients";

const TensorValue& observed(const History& h, int rank, const Moment& at, const char* name) {
  for (const auto& event : h.ranks().at(static_cast<size_t>(rank)).events)
    if (const auto* seen = std::get_if<Observation>(&event.what))
      if (event.at == at && seen->name == name) return seen->value;
  throw NotSeen(std::string(name) + " of " + at.phase, rank);
}

}  // namespace

TimedLayers::TimedLayers(int layers) {
  for (int layer = 0; layer < layers; ++layer) {
    weights_.push_back(register_parameter("w" + std::to_string(layer), torch::ones({kWidth})));
    weights_.back().register_hook(
        [this, at = static_cast<size_t>(layer)](const at::Tensor& gradient) {
          if (on_gradient) on_gradient(at, gradient);
          return gradient;
        });
  }
}

at::Tensor TimedLayers::forward(const at::Tensor& input) {
  auto out = input;
  for (const auto& weight : weights_) out = out * weight;
  return out;
}

Sender::Sender(Group group, TimedLayers& model, std::vector<std::vector<size_t>> buckets, When when)
    : group_(std::move(group)),
      model_(model),
      buckets_(std::move(buckets)),
      when_(when),
      gradients_(model.weights().size()) {}

void Sender::arrived(size_t layer, const at::Tensor& gradient) {
  gradients_[layer] = gradient.detach();
  if (when_ == When::as_they_fill) launch_full();
}

void Sender::launch_full() {
  while (launched_.size() < buckets_.size()) {
    std::vector<at::Tensor> parts;
    for (const auto layer : buckets_[launched_.size()]) parts.push_back(gradients_[layer]);
    if (std::any_of(parts.begin(), parts.end(), [](const auto& part) { return !part.defined(); }))
      return;
    auto& launched = launched_.emplace_back(Launched{{at::cat(parts)}, nullptr});
    launched.work = group_->allreduce(launched.flat);
  }
}

void Sender::finish() {
  launch_full();
  for (size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
    launched_[bucket].work->wait();
    launched_[bucket].flat.front().div_(group_->getSize());
    const auto parts = launched_[bucket].flat.front().split(TimedLayers::kWidth);
    for (size_t i = 0; i < parts.size(); ++i)
      model_.weights()[buckets_[bucket][i]].grad().copy_(parts[i]);
  }
  launched_.clear();
  gradients_.assign(gradients_.size(), {});
}

std::vector<std::vector<size_t>> buckets_of(int layers, int size) {
  std::vector<std::vector<size_t>> buckets;
  for (int layer = layers - 1; layer >= 0; --layer) {
    if (buckets.empty() || buckets.back().size() == static_cast<size_t>(size))
      buckets.emplace_back();
    buckets.back().push_back(static_cast<size_t>(layer));
  }
  return buckets;
}

void run_timed(RankContext& here, int step, const std::string& phase, const TimedPass& pass) {
  std::vector<int64_t> arrivals;
  pass.model.zero_grad();
  pass.model.on_gradient = [&](size_t layer, const at::Tensor& gradient) {
    arrivals.push_back(here.now_ns());
    if (pass.on_gradient) pass.on_gradient(layer, gradient);
  };
  here.enter(step, phase + ": ranks come together");
  std::vector<at::Tensor> one{torch::ones({1})};
  pass.group->allreduce(one)->wait();
  here.enter(step, phase);
  const auto begin = here.now_ns();
  const auto loss = pass.forward();
  const auto backward = here.now_ns();
  pass.backward(loss);
  const auto end = here.now_ns();
  pass.model.on_gradient = nullptr;
  here.record(kTimes, {begin, backward, end});
  here.record(kArrivals, arrivals);
  std::vector<at::Tensor> gradients;
  for (const auto& weight : pass.model.weights()) gradients.push_back(weight.grad());
  here.record(kGradients, at::stack(gradients));
  here.enter(step, phase + ": after it");  // what a program does next is no part of the pass
}

const TensorValue& gradients_in(const History& h, int rank, const Moment& at) {
  return observed(h, rank, at, kGradients);
}

PassTimes times_in(const History& h, int rank, const Moment& at) {
  const auto times = as_integers(observed(h, rank, at, kTimes));
  return {times.at(0), times.at(1), times.at(2), as_integers(observed(h, rank, at, kArrivals))};
}

std::vector<std::vector<Carried>> carried_in(const History& h, const std::vector<int>& ranks,
                                             const Moment& at) {
  std::vector<std::vector<Carried>> all;
  for (const int rank : ranks) {
    auto& own = all.emplace_back();
    for (const auto& issued : h.collectives(rank, at)) {
      if (!issued.done) throw NotSeen("the end of an all-reduce", rank);
      own.push_back({.issued = issued.times.queued_ns, .to = issued.times.done_ns});
    }
    if (own.size() != all.front().size()) throw NotSeen("as many all-reduces", rank);
  }
  for (size_t i = 0; i < all.front().size(); ++i) {
    int64_t from = i == 0 ? 0 : all.front()[i - 1].to;
    for (const auto& of_rank : all) from = std::max(from, of_rank[i].issued);
    for (auto& of_rank : all) of_rank[i].from = from;
  }
  return all;
}

Shares shares_of(const PassTimes& times, const std::vector<Carried>& all) {
  Shares shares;
  for (const auto& each : all) {
    shares.carried += each.to - each.from;
    shares.hidden += std::max<int64_t>(0, std::min(each.to, times.computed()) - each.from);
  }
  return shares;
}

Findings full_buckets_leave_at_once(const History& h, const std::vector<int>& ranks,
                                    const Moment& at, int bucket) {
  const auto carried = carried_in(h, ranks, at);
  for (size_t i = 0; i < ranks.size(); ++i) {
    const auto times = times_in(h, ranks[i], at);
    const auto wanted =
        (times.arrivals.size() + static_cast<size_t>(bucket) - 1) / static_cast<size_t>(bucket);
    const auto early = std::count_if(carried[i].begin(), carried[i].end(), [&](const auto& each) {
      return each.issued < times.computed();
    });
    if (static_cast<size_t>(early) + 1 < wanted)
      return {{"A bucket must be sent as soon as its gradients are there", "launched_at_the_end",
               at.phase,
               "rank " + std::to_string(ranks[i]) + " issued " + std::to_string(early) + " of " +
                   std::to_string(carried[i].size()) +
                   " all-reduces before its last gradient was there, where " +
                   std::to_string(wanted - 1) + " buckets were full"}};
  }
  return {};
}

TensorValue gradients_of(int layers, double value) {
  return scenarios::recorded(
      torch::full({layers, TimedLayers::kWidth}, static_cast<double>(TimedLayers::kBatch) * value,
                  at::kDouble),
      at::kFloat);
}

std::vector<int> ranks_from(int first, int count) {
  std::vector<int> ranks(static_cast<size_t>(count));
  std::iota(ranks.begin(), ranks.end(), first);
  return ranks;
}

std::string microseconds(int64_t ns) {
  return with_commas((ns + 500) / 1000);
}

}  // namespace lockstep::demos
