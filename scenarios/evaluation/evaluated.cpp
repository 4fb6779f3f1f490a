#include "scenarios/evaluation/evaluated.h"

#include "harness/base/values.h"
#include "reference/sampling.h"

#include <torch/torch.h>

#include <cmath>

namespace lockstep::scenarios::evaluation {

namespace {

constexpr int64_t kStart = 40, kClasses = 3;

// y = w x, whose remainder is the class that it predicts.
class Scaled : public Model {
 public:
  Scaled() : weight_(register_parameter("w", torch::full({1}, kStart, at::kDouble))) {}
  at::Tensor forward(const at::Tensor& input) override { return weight_ * input; }

 private:
  at::Tensor weight_;
};

int64_t whole(const Evaluated& c, Stream stream, int64_t round, int64_t index, int64_t most) {
  return whole_at({.seed = c.seed,
                   .stream = stream,
                   .step = static_cast<uint64_t>(round),
                   .index = static_cast<uint64_t>(index)},
                  most);
}

int64_t class_of(const Evaluated& c, int64_t sample) {
  return (whole(c, Stream::order, 0, sample, 4) + 4) % kClasses;
}

}  // namespace

int64_t gradient_of(const Evaluated& c, int round, int rank) {
  return (1 + std::abs(whole(c, Stream::cotangent, round, rank, 2))) * c.world.size;
}

int64_t weight_after(const Evaluated& c, int round) {
  int64_t weight = kStart;
  for (int each = 0; each <= round; ++each) {
    int64_t sum = 0;
    for (int rank = 0; rank < c.world.size; ++rank) sum += gradient_of(c, each, rank);
    weight -= sum / c.world.size;
  }
  return weight;
}

Totals expected_of(const Evaluated& c, int round, const std::vector<int64_t>& samples) {
  Totals out{.samples = static_cast<int64_t>(samples.size())};
  for (const auto sample : samples) {
    const int64_t output = weight_after(c, round) * input_of(c, sample);
    out.right += output % kClasses == class_of(c, sample) ? 1 : 0;
  }
  return out;
}

std::vector<int64_t> samples_of(const Evaluated& c, int round, int rank) {
  return reference::rank_order({.length = c.length,
                                .world_size = c.world.size,
                                .shuffle = c.shuffle,
                                .drop_last = c.drop_last,
                                .pad = c.pad,
                                .seed = static_cast<int64_t>(c.seed),
                                .epoch = round},
                               rank);
}

int64_t input_of(const Evaluated& c, int64_t sample) {
  return 1 + std::abs(whole(c, Stream::input, 0, sample, 5));
}

Totals counted(const Evaluated& c, const std::vector<int64_t>& samples, const at::Tensor& outputs) {
  Totals out{.samples = static_cast<int64_t>(samples.size())};
  for (size_t i = 0; i < samples.size(); ++i) {
    const auto output = outputs[static_cast<int64_t>(i)].item<double>();
    out.right += static_cast<int64_t>(output) % kClasses == class_of(c, samples[i]) ? 1 : 0;
  }
  return out;
}

double accuracy(const Totals& totals) {
  return totals.samples == 0
             ? 0.0
             : static_cast<double>(totals.right) / static_cast<double>(totals.samples);
}

std::shared_ptr<Model> scaled() {
  return std::make_shared<Scaled>();
}

}  // namespace lockstep::scenarios::evaluation
