// The property that catches each fault: a training step written by hand, with one mistake after
// another, beside DDP's; every property judges every one of them.
//
// The model has two weights a and b, and the loss of sample x is (a + 2 b) x, so that the gradients
// are x and 2 x, averaged over samples: sample i is i + 1. A buffer holds the average of the last
// batch.
#include "demos/faults.h"

#include "harness/rank/rank_context.h"
#include "harness/worlds/subject.h"

namespace lockstep::demos::faults {

namespace {

constexpr double kRate = 0.25;

class TwoWeights : public Model {
 public:
  TwoWeights(double start, bool has_buffer)
      : a_(register_parameter("a", torch::full({1}, start))),
        b_(register_parameter("b", torch::full({1}, start))) {
    if (has_buffer) buffer_ = register_buffer("batch_average", torch::zeros({1}));
  }
  at::Tensor forward(const at::Tensor& input) override {
    if (buffer_.defined()) {
      at_entry_ = buffer_.clone();
      buffer_.copy_(input.mean());
    }
    return (a_ + 2 * b_) * input;
  }
  std::vector<at::Tensor> weights() const { return {a_, b_}; }
  at::Tensor buffer() const { return buffer_; }
  at::Tensor buffer_at_entry() const { return at_entry_; }

 private:
  at::Tensor a_, b_, buffer_, at_entry_;
};

// The textbook's average of gradients, with the mistakes that it can have.
void average(const FaultCase& c, RankContext& here, const std::string& fault,
             const TwoWeights& model) {
  if (fault == kNotReduced) return;
  const auto weights = model.weights();
  for (size_t i = 0; i < weights.size(); ++i) {
    if (fault == kLeftOut && i > 0) continue;
    std::vector<at::Tensor> gradient{weights[i].grad()};
    for (int time = 0; time < (fault == kReducedTwice ? 2 : 1); ++time) {
      if (fault != kNotDivided) gradient[0].div_(c.world.size);
      if (fault == kDividedTwice) gradient[0].div_(c.world.size);
      here.group()->allreduce(gradient)->wait();
    }
  }
}

void follow_rank_zero(RankContext& here, const at::Tensor& buffer) {
  std::vector<at::Tensor> tensors{buffer};
  here.group()->broadcast(tensors)->wait();
}

void train(const FaultCase& c, RankContext& here, const std::string& name,
           const std::string& fault) {
  const int rank = here.rank(), data_rank = fault == kSameSamples ? 0 : rank;
  const auto model =
      std::make_shared<TwoWeights>(fault == kOwnStart ? rank + 1 : 1, c.settings.buffers);
  const auto replica = fault == kNoMistake ? wrap(here, model, {}) : nullptr;
  const double rate = fault == kOwnRate && rank + 1 == c.world.size ? 2 * kRate : kRate;
  auto last = torch::zeros({2});
  for (int step = 0; step < kSteps; ++step) {
    const int first = first_sample(c, data_rank, step);
    const auto samples = torch::arange(first, first + samples_of(c, data_rank), at::kLong);
    const auto input = samples.to(at::kFloat) + 1;
    const double factor = fault == kUnweighted ? 1 : weight_of(c, data_rank);
    model->zero_grad();
    here.enter(step, name);
    if (!replica && model->buffer().defined() && fault != kBuffersKept)
      follow_rank_zero(here, model->buffer());
    const auto loss = (replica ? replica->forward(input) : model->forward(input)).mean() * factor;
    replica ? replica->backward(loss) : loss.backward();
    if (!replica) average(c, here, fault, *model);
    const auto held = torch::cat({model->weights()[0].grad(), model->weights()[1].grad()});
    const auto used = fault == kLate ? last : held;
    last = held;
    const torch::NoGradGuard no_grad;
    for (int64_t i = 0; i < 2; ++i)
      model->weights()[static_cast<size_t>(i)].sub_(used.narrow(0, i, 1) * rate);
    here.record(kSamples, samples);
    here.record(kGradient, used);
    here.record(kWeights, torch::cat(model->weights()));
    if (model->buffer().defined()) here.record(kBuffer, model->buffer_at_entry());
  }
}

void program(const FaultCase& c, RankContext& here) {
  train(c, here, kThis, c.mistake);
  for (const auto& fault : all_faults()) train(c, here, fault.name, fault.name);
}

Findings this_program_has_every_property(const FaultCase& c, const History& h) {
  Findings all;
  for (const auto& property : properties())
    if (auto findings = property.judge(c, h, kThis)) all += *findings;
  return all;
}

Findings every_fault_is_caught(const FaultCase& c, const History& h) {
  Findings all;
  for (const auto& fault : all_faults()) {
    bool is_caught = is_hidden(c, fault.name);
    for (const auto& property : properties())
      if (const auto findings = property.judge(c, h, fault.name))
        is_caught = is_caught || !findings->empty();
    if (!is_caught)
      all.push_back({"Some property must catch each fault", "escaped", fault.name,
                     "no property catches " + fault.name + ": " + fault.meaning});
  }
  return all;
}

bool is_power_of_two(int number) {
  return number > 0 && (number & (number - 1)) == 0;
}

}  // namespace

std::vector<DemoMistake> all_faults() {
  return {{kNotDivided, "gradients are summed over the ranks and not divided"},
          {kDividedTwice, "gradients are divided by the number of ranks twice"},
          {kNotReduced, "gradients are not all-reduced: every rank trains alone"},
          {kLeftOut, "the gradient of b is left out of the all-reduce"},
          {kOwnStart, "every rank begins with weights of its own"},
          {kOwnRate, "the last rank has twice the learning rate"},
          {kSameSamples, "every rank draws rank 0's samples"},
          {kUnweighted, "the losses of batches of unlike size are not weighted"},
          {kLate, "an update takes the gradient of the step before"},
          {kBuffersKept, "buffers are not broadcast before a forward"},
          {kReducedTwice, "gradients that are averaged already are averaged again"}};
}

int samples_of(const FaultCase& c, int rank) {
  return c.settings.samples[static_cast<size_t>(rank) % c.settings.samples.size()];
}

int whole_batch(const FaultCase& c) {
  int count = 0;
  for (int rank = 0; rank < c.world.size; ++rank) count += samples_of(c, rank);
  return count;
}

int first_sample(const FaultCase& c, int rank, int step) {
  int first = step * whole_batch(c);
  for (int before = 0; before < rank; ++before) first += samples_of(c, before);
  return first;
}

double weight_of(const FaultCase& c, int rank) {
  return static_cast<double>(c.world.size) * samples_of(c, rank) / whole_batch(c);
}

bool is_hidden(const FaultCase& c, const std::string& fault) {
  if (fault == kBuffersKept) return !c.settings.buffers;
  if (fault != kUnweighted) return false;
  for (int rank = 1; rank < c.world.size; ++rank)
    if (samples_of(c, rank) != samples_of(c, 0)) return false;
  return true;
}

Demo demonstration() {
  return demo<Settings>(
      {.name = "faults",
       .lesson = "which property catches which fault, and why one property is not enough",
       .text = "Each row is a training of two steps with one mistake, in one world; each column a "
               "property of what its ranks recorded: every sample is drawn once, gradients are "
               "those of one process, the ranks' gradients agree, their weights agree, their "
               "buffers follow rank 0, every gradient is sent once. --wrong tells a fault's story.",
       .meanings = {"number of ranks; a power of two",
                    "the size of each rank's batch, read cyclically", "the model has a buffer"},
       .mistakes = all_faults(),
       .refusal =
           [](const Settings& s) {
             if (s.samples.empty()) return std::string("samples must name at least one size");
             FaultCase c{.settings = s};
             c.world.size = s.world;
             return is_power_of_two(s.world) && is_power_of_two(whole_batch(c))
                        ? std::string()
                        : "ranks and samples of a step must be powers of two, so that averages are "
                          "exact: there are " +
                              std::to_string(s.world) + " and " + std::to_string(whole_batch(c));
           },
       .program = program,
       .checks = {this_program_has_every_property, every_fault_is_caught},
       .show = show});
}

}  // namespace lockstep::demos::faults
