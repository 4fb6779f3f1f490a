// A network of two dense layers, trained by ranks with DDP and by one process: how far the
// parameters are apart, how far rounding allows them to be, and both losses.
#include "demos/one_process.h"

#include "harness/base/values.h"
#include "harness/rank/rank_context.h"
#include "harness/verdict/compare.h"
#include "harness/worlds/subject.h"
#include "scenarios/cases/tensors.h"

#include <torch/torch.h>

#include <algorithm>

namespace lockstep::demos::one_process {

namespace {

using reference::given;
using reference::Rounded;

constexpr char kNotDivided[] = "not_divided", kOwnStart[] = "own_start";
constexpr int64_t kInputs = 3, kHidden = 2;

at::Tensor eighths(Stream stream, int rank, uint64_t first, at::IntArrayRef shape) {
  return scenarios::whole_numbers(
             {.seed = 44, .stream = stream, .rank = static_cast<uint64_t>(rank), .index = first}, 8,
             shape) /
         8;
}

class TwoLayers : public Model {
 public:
  TwoLayers(int rank, at::ScalarType dtype) {
    const auto start = initial(rank);
    for (size_t p = 0; p < kParameters; ++p) {
      std::string name = kNames[p];
      std::replace(name.begin(), name.end(), '.', '_');
      parameters_.push_back(register_parameter(name, start[p].to(dtype)));
    }
  }
  at::Tensor forward(const at::Tensor& input) override {
    const auto hidden = torch::linear(input, parameters_[0], parameters_[1]);
    return torch::linear(hidden, parameters_[2], parameters_[3]);
  }
  const std::vector<at::Tensor>& all() const { return parameters_; }

 private:
  std::vector<at::Tensor> parameters_;
};

// The loss is divided by a number of samples that is a power of two.
at::Tensor loss_of(const at::Tensor& output, const at::Tensor& targets) {
  const auto error = output - targets;
  return (error * error).sum() * (0.5 / static_cast<double>(targets.size(0)));
}

void update(const TwoLayers& model, double rate) {
  const torch::NoGradGuard no_grad;
  for (auto parameter : model.all()) parameter.sub_(parameter.grad() * rate);
}

void record_parameters(RankContext& here, const TwoLayers& model) {
  for (size_t p = 0; p < kParameters; ++p) here.record(kNames[p], model.all()[p]);
}

void sum_gradients(RankContext& here, const TwoLayers& model) {
  for (const auto& parameter : model.all()) {
    std::vector<at::Tensor> gradient{parameter.grad()};
    here.group()->allreduce(gradient)->wait();
  }
}

// Rank 0's own training on its own samples, without the others; its loss is that on all samples.
void train_alone(const TrainingCase& c, RankContext& here) {
  const auto dtype = scalar_type(c.settings.dtype);
  const auto whole = whole_batch(c), own = batch_of(c, 0);
  TwoLayers model(0, dtype);
  for (int step = 0; step < c.settings.steps; ++step) {
    model.zero_grad();
    here.enter(step, kAlone);
    here.record(kLoss,
                loss_of(model.forward(whole.inputs.to(dtype)), whole.targets.to(dtype)).detach());
    loss_of(model.forward(own.inputs.to(dtype)), own.targets.to(dtype)).backward();
    update(model, kRate);
  }
}

void program(const TrainingCase& c, RankContext& here) {
  const auto dtype = scalar_type(c.settings.dtype);
  const auto [inputs, targets] = batch_of(c, here.rank());
  const bool by_hand = c.mistake == kNotDivided;
  const auto model = std::make_shared<TwoLayers>(by_hand ? 0 : here.rank(), dtype);
  const auto replica = by_hand ? nullptr : wrap(here, model, {.init_sync = c.mistake != kOwnStart});
  here.enter(0, kStart);
  record_parameters(here, *model);
  for (int step = 0; step < c.settings.steps; ++step) {
    model->zero_grad();
    here.enter(step, "training");
    const auto input = inputs.to(dtype);
    const auto loss =
        loss_of(replica ? replica->forward(input) : model->forward(input), targets.to(dtype));
    replica ? replica->backward(loss) : loss.backward();
    if (by_hand) sum_gradients(here, *model);
    update(*model, rate_of(c));
    here.enter(step, kUpdated);
    here.record(kLoss, loss.detach());
    record_parameters(here, *model);
  }
  if (here.rank() == 0) train_alone(c, here);
}

// The gradients of one rank, by backpropagation written out.
Parameters gradients(const Parameters& at, const Batch& batch, reference::Arithmetic& arithmetic) {
  const auto transposed = [](const Rounded& a) { return Rounded{a.value.t(), a.error.t()}; };
  const auto x = given(batch.inputs);
  const auto hidden = arithmetic.affine(x, at[0], at[1]);
  const auto output = arithmetic.affine(hidden, at[2], at[3]);
  const auto error = arithmetic.times(arithmetic.plus(output, given(-batch.targets)),
                                      1.0 / static_cast<double>(batch.targets.size(0)));
  const auto back = arithmetic.product(error, at[2]);
  return {arithmetic.product(transposed(back), x), arithmetic.sum_of_samples(back),
          arithmetic.product(transposed(error), hidden), arithmetic.sum_of_samples(error)};
}

std::vector<TensorValue> own_starts(const TrainingCase& c, size_t parameter) {
  std::vector<TensorValue> own;
  for (int rank = 0; rank < c.world.size; ++rank)
    own.push_back(scenarios::recorded(initial(rank)[parameter], scalar_type(c.settings.dtype)));
  return own;
}

Findings ranks_start_equal(const TrainingCase& c, const History& h) {
  std::vector<Comparison> rows;
  for (size_t p = 0; p < kParameters; ++p) {
    const auto own = own_starts(c, p);
    rows.push_back(
        {.row = h.row({0, kStart}, kNames[p]), .expected = {own.front()}, .explanations = [own] {
           return Explanations{
               recorded_instead({"own_initial_state", "what the rank itself began with"}, own)};
         }});
  }
  return equal("Every rank must begin with rank 0's parameters", rows);
}

Findings ranks_train_as_one_process(const TrainingCase& c, const History& h) {
  const auto dtype = scalar_type(c.settings.dtype);
  const auto right = trajectory(c, rate_of(c));
  const auto summed = trajectory(c, rate_of(c) * c.world.size);
  std::vector<Comparison> rows;
  for (int step = 0; step < c.settings.steps; ++step)
    for (size_t p = 0; p < kParameters; ++p) {
      const auto [value, bound] =
          scenarios::written(right[static_cast<size_t>(step) + 1][p], dtype);
      const auto if_summed =
          scenarios::written(summed[static_cast<size_t>(step) + 1][p], dtype).value;
      rows.push_back({.row = h.row({step, kUpdated}, kNames[p]),
                      .expected = {value},
                      .bounds = {bound},
                      .explanations = [if_summed] {
                        return Explanations{
                            recorded_instead({"sum_not_average",
                                              "what the sum of the gradients makes of it, not "
                                              "their average"},
                                             {if_summed})};
                      }});
    }
  return equal("After every update each rank must hold the parameters of one process", rows);
}

}  // namespace

int sample_count(const TrainingCase& c) {
  return c.settings.batch == BatchSize::split ? kSamples : kSamples * c.world.size;
}

int samples_of_rank(const TrainingCase& c) {
  return sample_count(c) / c.world.size;
}

double rate_of(const TrainingCase& c) {
  return c.settings.rate == Rate::same ? kRate : kRate * c.world.size;
}

Batch whole_batch(const TrainingCase& c) {
  const int count = sample_count(c);
  const auto inputs = eighths(Stream::input, 0, 0, {count, kInputs});
  return {inputs, eighths(Stream::cotangent, 0, 0, {count, 1})};
}

Batch batch_of(const TrainingCase& c, int rank) {
  const auto whole = whole_batch(c);
  const int64_t own = samples_of_rank(c);
  return {whole.inputs.narrow(0, rank * own, own), whole.targets.narrow(0, rank * own, own)};
}

std::array<at::Tensor, kParameters> initial(int rank) {
  return {eighths(Stream::parameter, rank, 0, {kHidden, kInputs}),
          eighths(Stream::parameter, rank, 10, {kHidden}),
          eighths(Stream::parameter, rank, 20, {1, kHidden}),
          eighths(Stream::parameter, rank, 30, {1})};
}

std::vector<Parameters> trajectory(const TrainingCase& c, double rate) {
  reference::Arithmetic arithmetic(
      {.precision_bits = traits_of(c.settings.dtype).precision_bits, .exact = false});
  std::vector<Parameters> all(1);
  for (size_t p = 0; p < kParameters; ++p) all[0][p] = given(initial(0)[p]);
  for (int step = 0; step < c.settings.steps; ++step) {
    std::vector<Parameters> by_rank;
    for (int rank = 0; rank < c.world.size; ++rank)
      by_rank.push_back(gradients(all.back(), batch_of(c, rank), arithmetic));
    Parameters next;
    for (size_t p = 0; p < kParameters; ++p) {
      std::vector<Rounded> shares;
      for (const auto& rank : by_rank) shares.push_back(rank[p]);
      next[p] = arithmetic.plus(all.back()[p], arithmetic.times(arithmetic.average(shares), -rate));
    }
    all.push_back(next);
  }
  return all;
}

double loss_of(const Parameters& parameters, const Batch& batch) {
  const auto hidden = torch::linear(batch.inputs, parameters[0].value, parameters[1].value);
  const auto output = torch::linear(hidden, parameters[2].value, parameters[3].value);
  return (output - batch.targets).square().mean().item<double>() / 2;
}

Demo demonstration() {
  return demo<Settings>(
      {.name = "reference",
       .lesson = "how far ranks are from one process, and what rounding allows",
       .text = "A network of two dense layers learns eight samples, or eight a rank. One process "
               "with all samples and the same learning rate is computed in double precision, with "
               "a bound on what the ranks' dtype may round away. Rank 0 also trains alone, on its "
               "own samples.",
       .proof = "training.is_one_process",
       .meanings = {"number of ranks; a power of two", "updates",
                    "the ranks share eight samples (split), or have eight each (per_rank)",
                    "the ranks' learning rate: one process's, or times the ranks (linear)",
                    "of parameters and samples"},
       .mistakes = {{kNotDivided, "the program sums the gradients itself and does not divide"},
                    {kOwnStart, "parameters are not made equal at the start"}},
       .refusal =
           [](const Settings& s) {
             return s.world == 3 ? std::string("world must be 2 or 4, so that batches are equal")
                                 : std::string();
           },
       .program = program,
       .checks = {ranks_start_equal, ranks_train_as_one_process},
       .show = show});
}

}  // namespace lockstep::demos::one_process
