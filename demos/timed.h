// Shared parts of demonstrations in virtual time: a model whose layers all cost the same, a
// program's own sending of gradients, and the times at which gradients arrived and travelled in a
// history.
#pragma once

#include "harness/rank/rank_context.h"
#include "harness/verdict/verdict.h"
#include "harness/worlds/subject.h"

#include <torch/torch.h>

#include <functional>
#include <string>
#include <vector>

namespace lockstep::demos {

// Every layer multiplies its input, which is [kBatch, kWidth], by a weight of kWidth ones. So the
// gradient of each weight is the sum of the input over the batch.
class TimedLayers : public Model {
 public:
  static constexpr int64_t kBatch = 16, kWidth = 16;
  static constexpr int64_t kGradientBytes = 4 * kWidth;

  explicit TimedLayers(int layers);
  at::Tensor forward(const at::Tensor& input) override;
  const std::vector<at::Tensor>& weights() const { return weights_; }

  // Called in the backward pass with each weight's gradient, the last layer's first.
  std::function<void(size_t layer, const at::Tensor& gradient)> on_gradient;

 private:
  std::vector<at::Tensor> weights_;
};

// Averages gradients over a group without DDP: copies each bucket's gradients into one tensor and
// all-reduces it. Buckets are launched strictly in their order.
class Sender {
 public:
  enum class When { as_they_fill, after_backward };
  // The layers of each bucket.
  Sender(Group group, TimedLayers& model, std::vector<std::vector<size_t>> buckets, When when);
  void arrived(size_t layer, const at::Tensor& gradient);
  // Collective. After the backward pass; then the weights have the averaged gradients.
  void finish();

 private:
  void launch_full();

  const Group group_;
  TimedLayers& model_;
  const std::vector<std::vector<size_t>> buckets_;
  const When when_;
  std::vector<at::Tensor> gradients_;  // by layer; undefined: not there yet
  struct Launched {
    std::vector<at::Tensor> flat;
    c10::intrusive_ptr<c10d::Work> work;
  };
  std::vector<Launched> launched_;
};

// So many consecutive layers a bucket, beginning with the last layer, whose gradient comes first.
std::vector<std::vector<size_t>> buckets_of(int layers, int size);

// One pass, which begins at one time on all ranks of the group, in the moment {step, phase}.
// `forward` returns the loss; `backward` returns once the gradients are averaged. Records times and
// gradients.
struct TimedPass {
  Group group;
  TimedLayers& model;
  std::function<at::Tensor()> forward;
  std::function<void(const at::Tensor& loss)> backward;
  std::function<void(size_t layer, const at::Tensor& gradient)> on_gradient = nullptr;
};
void run_timed(RankContext& here, int step, const std::string& phase, const TimedPass& pass);

// When a rank did what in a timed pass; in nanoseconds.
struct PassTimes {
  int64_t begin = 0, backward = 0, end = 0;
  std::vector<int64_t> arrivals;  // of the gradients, in order
  int64_t computed() const { return arrivals.back(); }
};
const TensorValue& gradients_in(const History& h, int rank, const Moment& at);
PassTimes times_in(const History& h, int rank, const Moment& at);

// One all-reduce of a timed pass on one rank. Its group carries one after another, and each begins
// once every rank has issued it.
struct Carried {
  int64_t issued = 0, from = 0, to = 0;
};
// Returns the all-reduces of each of these ranks, in order. Throws NotSeen where a rank has not
// done what another has.
std::vector<std::vector<Carried>> carried_in(const History& h, const std::vector<int>& ranks,
                                             const Moment& at);

// The time that the all-reduces took, and how much of it passed while the rank still computed.
struct Shares {
  int64_t carried = 0, hidden = 0;
  int64_t exposed() const { return carried - hidden; }
};
Shares shares_of(const PassTimes& times, const std::vector<Carried>& all);

// One finding where a rank issued its all-reduces late: all but the last must be issued before its
// last gradient arrives, since `bucket` gradients fill a bucket. None otherwise.
Findings full_buckets_leave_at_once(const History& h, const std::vector<int>& ranks,
                                    const Moment& at, int bucket);

// Every layer's gradient of an input that is `value` everywhere, as float32. Exact for whole
// numbers and halves.
TensorValue gradients_of(int layers, double value);

std::vector<int> ranks_from(int first, int count);

// "1,392".
std::string microseconds(int64_t ns);

}  // namespace lockstep::demos
