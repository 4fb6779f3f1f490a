// Beliefs of batch normalisation: 10, 11, 12, 13 and 29.
#include "demos/beliefs/belief.h"
#include "demos/beliefs/beliefs.h"
#include "demos/beliefs/models.h"
#include "demos/layers.h"

#include <cmath>
#include <exception>

namespace lockstep::demos::beliefs {

namespace {

using reports::number_text;

constexpr NormOptions kNorm{.channels = 1, .eps_log2 = -10, .momentum_log2 = -3};

std::shared_ptr<Model> plain_norm() {
  return std::make_shared<PlainNorm>(kNorm);
}

int64_t uneven(int rank) {
  return rank % 2 == 0 ? 6 : 2;
}

// The squares of the whole numbers of this rank's part, which no constant divides evenly.
at::Tensor uneven_batch(int rank) {
  int64_t first = 0;
  for (int before = 0; before < rank; ++before) first += uneven(before);
  return samples(first, uneven(rank)).square().to(at::kFloat).view({-1, 1});
}

at::Tensor all_batches(int world, at::Tensor (*batch)(int rank)) {
  std::vector<at::Tensor> batches;
  for (int rank = 0; rank < world; ++rank) batches.push_back(batch(rank));
  return torch::cat(batches);
}

// Two values around 10 times the rank.
at::Tensor around_ten(int rank) {
  return torch::tensor({10.0F * static_cast<float>(rank) - 1, 10.0F * static_cast<float>(rank) + 1})
      .view({2, 1});
}

// The average of float32 outputs that cancel out is noise of a few 1e-7.
double without_noise(const at::Tensor& average) {
  return std::round(average.item<double>() * 1e6) / 1e6 + 0.0;  // no -0
}

void broadcasts(const Run& run) {
  const auto own = around_ten(run.rank());
  const auto model =
      std::make_shared<Watched>(run.is_met() ? sync_batch_norm(run.here(), kNorm) : plain_norm());
  const auto replica = wrap(run.here(), model, {});
  const auto output = replica->forward(own);
  replica->backward(output.sum());
  model->on_entry = [&] { run.record("running_mean", running_mean(*model)); };
  replica->backward(replica->forward(own).sum());
  const auto alone = plain_norm();
  const auto outputs = alone->forward(all_batches(run.world(), around_ten));
  run.record("output", without_noise(output.mean()));
  run.record("output of one process",
             without_noise(outputs.slice(0, 2 * run.rank(), 2 * run.rank() + 2).mean()));
  run.record("running_mean of one process", running_mean(*alone));
}

Outcome normalises_by_all(const Records& records) {
  const auto last = records.world() - 1;
  bool holds = true;
  for (int rank = 0; rank < records.world(); ++rank)
    for (const std::string name : {"output", "running_mean"})
      holds = holds && is_close(records.numbers(rank, name)[0],
                                records.numbers(rank, name + " of one process")[0]);
  const double mean = records.by_rank("running_mean of one process").front();
  return {holds,
          "the last rank's outputs average " + number_text(records.numbers(last, "output")[0]) +
              ", those of one process for the same samples " +
              number_text(records.numbers(last, "output of one process")[0]) +
              "; the next forward begins with running_mean " +
              number_text(records.numbers(last, "running_mean")[0]) +
              ", that of one process with " + number_text(mean),
          {column("average output", records, "output"),
           column("one process, these samples", records, "output of one process"),
           column("next running_mean", records, "running_mean", 0, mean)}};
}

// The running variance of a merge that corrects by the count of the rank's own batch, as n / (n-1),
// where the count of all belongs.
at::Tensor merged_with_own_count(const Run& run, const at::Tensor& own) {
  const auto values = own.to(at::kDouble);
  const auto all = summed(run.here(), torch::stack({values.sum(), values.square().sum(),
                                                    torch::full({}, values.numel(), at::kDouble)}));
  const auto count = all[2], average = all[0] / count;
  const auto spread = all[1] / count - average.square();
  const auto n = static_cast<double>(values.numel());
  const double weight = std::ldexp(1.0, static_cast<int>(kNorm.momentum_log2));
  return (1 - weight) + weight * spread * n / (n - 1);
}

void keeps_variance(const Run& run) {
  const auto own = uneven_batch(run.rank());
  run.record("samples", static_cast<double>(own.numel()));
  if (!run.is_met()) return run.record("running_var", merged_with_own_count(run, own));
  const auto model = sync_batch_norm(run.here(), kNorm);
  const auto replica = wrap(run.here(), model, {.broadcast_buffers = false});
  replica->forward(own);
  for (const auto& buffer : model->named_buffers())
    if (buffer.key().ends_with("running_var")) run.record("running_var", buffer.value());
}

Outcome buffers_are_equal(const Records& records) {
  const auto held = records.by_rank("running_var");
  return {all_same(held),
          std::string("running_var is ") + (all_same(held)
                                                ? number_text(held.front()) + " on every rank"
                                                : spaced(held) + " on the ranks"),
          {column("samples", records, "samples"), column("running_var", records, "running_var")}};
}

// One row of a table with two channels on each rank, with statistics over all ranks or over none.
void normalises_a_table(const Run& run) {
  auto options = kNorm;
  options.channels = 2;
  const auto group = run.is_met() ? run.here().group_of({run.rank()}) : run.here().group();
  const auto layer = sync_batch_norm(run.here(), options, group);
  at::Tensor output = torch::empty({0});
  try {
    output = layer->forward(torch::full({1, 2}, static_cast<float>(run.rank())));
  } catch (const std::exception&) {  // what it refuses has no output
  }
  run.record("output", output.view(-1));
}

// The belief is that a table is refused: it holds where no rank has an output.
Outcome a_table_is_refused(const Records& records) {
  auto outputs = column("output of one row", records, "output");
  bool is_refused = true;
  for (auto& text : outputs.by_rank) {
    is_refused = is_refused && text.empty();
    if (text.empty()) text = "refused";
  }
  return {is_refused,
          "a row of 2 channels gives rank 0 " +
              (outputs.by_rank[0] == "refused" ? "an error" : outputs.by_rank[0]),
          {outputs}};
}

// The average of (y - i)^2 over the samples i of this part, of a layer's outputs y.
at::Tensor loss_of(const at::Tensor& outputs, const at::Tensor& targets) {
  return (outputs - targets).square().mean();
}

void trains_a_layer(const Run& run) {
  const auto own = uneven_batch(run.rank());
  const auto all = all_batches(run.world(), uneven_batch);
  const auto targets = [](const at::Tensor& batch) { return batch.sqrt(); };
  const double weight = run.is_met()
                            ? static_cast<double>(run.world()) * static_cast<double>(own.numel()) /
                                  static_cast<double>(all.numel())
                            : 1.0;
  const auto model = sync_batch_norm(run.here(), kNorm);
  const auto replica = wrap(run.here(), model, {.broadcast_buffers = false});
  auto input = own.clone().requires_grad_();
  const auto output = replica->forward(input);
  replica->backward(loss_of(output, targets(own)) * weight);
  const auto alone = plain_norm();
  auto whole = all.clone().requires_grad_();
  const auto outputs = alone->forward(whole);
  loss_of(outputs, targets(all)).backward();
  const auto first = all_batches(run.rank() + 1, uneven_batch).numel() - own.numel();
  run.record("output", output[0]);
  run.record("output of one process", outputs[first]);
  run.record("weight", model->parameters()[0].grad());
  run.record("weight of one process", alone->parameters()[0].grad());
  run.record("input", input.grad()[0] / whole.grad()[first]);
}

Outcome gradients_are_those_of_one_process(const Records& records) {
  const double alone = records.by_rank("weight of one process").front();
  return beside_one_process("the gradient of its weight is ", records.by_rank("weight"), alone,
                            {column("first output", records, "output"),
                             column("in one process", records, "output of one process"),
                             column("input's gradient, times", records, "input"),
                             column("weight's gradient", records, "weight", 0, alone)});
}

// Zeros on even ranks, ones on odd ones.
at::Tensor zeros_or_ones(int rank) {
  return torch::full({2, 1}, static_cast<float>(rank % 2));
}

constexpr int kForwards = 3;

void keeps_buffers(const Run& run) {
  const auto model = std::make_shared<Watched>(plain_norm());
  const auto replica = wrap(run.here(), model, {.broadcast_buffers = run.is_met()});
  const auto first_device = plain_norm();  // DataParallel keeps the buffers of its first device
  for (int each = 0; each < kForwards; ++each) {
    run.enter(each);
    run.record("DataParallel", running_mean(*first_device));
    model->on_entry = [&] { run.record("running_mean", running_mean(*model)); };
    replica->backward(replica->forward(zeros_or_ones(run.rank())).sum());
    first_device->forward(zeros_or_ones(0));
  }
}

Outcome buffers_are_those_of_data_parallel(const Records& records) {
  const auto held = records.by_rank("running_mean", kForwards - 1);
  const double kept = records.by_rank("DataParallel", kForwards - 1).front();
  Outcome out{all_close(held, kept),
              "the last forward begins with running_mean " + spaced(held) +
                  " on the ranks, DataParallel has " + number_text(kept),
              {}};
  for (int each = 0; each < kForwards; ++each)
    out.columns.push_back(column("forward " + std::to_string(each), records, "running_mean", each));
  out.columns.push_back(column("DataParallel", records, "DataParallel", kForwards - 1));
  return out;
}

}  // namespace

std::vector<Demo> of_batch_norm() {
  return {
      belief({.number = 10,
              .belief = "broadcast_buffers gives synchronised batch normalisation",
              .condition = "the layers are SyncBatchNorm: a broadcast copies rank 0's statistics "
                           "and throws the others' away; every rank still normalises by its own "
                           "batch",
              .text = "Rank r's two samples lie around 10 r.",
              .unmet = "with a plain BatchNorm",
              .met = "with SyncBatchNorm",
              .program = broadcasts,
              .outcome = normalises_by_all,
              .proof = "buffers.follow_rank_zero"}),
      belief({.number = 11,
              .belief = "With SyncBatchNorm all ranks have equal buffers",
              .condition = "all ranks run the same forwards in training, and the merge uses the "
                           "count of all samples",
              .text =
                  "Ranks have 6 samples and 2 by turns. In the first run the merged variance is "
                  "corrected by the count of the rank's own batch, as versions of PyTorch and "
                  "apex did.",
              .unmet = "where the count is a rank's own",
              .met = "where it is the count of all",
              .program = keeps_variance,
              .outcome = buffers_are_equal,
              .proof = "sync_batch_norm.keeps_buffers_equal_under_ddp"}),
      belief({.number = 12,
              .belief = "SyncBatchNorm refuses inputs that are no images",
              .condition = "there is one value a channel in the whole group; any input with a "
                           "channel axis is taken otherwise",
              .text = "Every rank has one row of a table with 2 channels; rank r's values are r.",
              .unmet = "over all ranks",
              .met = "over a group of one rank",
              .program = normalises_a_table,
              .outcome = a_table_is_refused,
              .proof = "sync_batch_norm.one_value_is_refused"}),
      belief({.number = 13,
              .belief = "SyncBatchNorm equals BatchNorm in one process",
              .condition = "losses are weighted by W n / N: the outputs are equal either way, the "
                           "gradients of parameters are not",
              .text = "Ranks have 6 samples and 2 by turns, and each loss is an average.",
              .unmet = "with losses as they are",
              .met = "with losses weighted by W n / N",
              .program = trains_a_layer,
              .outcome = gradients_are_those_of_one_process,
              .proof = "sync_batch_norm.gradients_want_weights"}),
      belief({.number = 29,
              .belief = "Without broadcast_buffers BatchNorm behaves as in DataParallel",
              .condition = "the broadcast is on: DataParallel keeps one set of buffers, its first "
                           "device's; without the broadcast DDP keeps W sets, which drift apart",
              .text =
                  "Even ranks train on zeros, odd ones on ones. The columns are running_mean as "
                  "each forward begins.",
              .unmet = "without the broadcast",
              .met = "with it",
              .program = keeps_buffers,
              .outcome = buffers_are_those_of_data_parallel,
              .proof = "buffers.follow_rank_zero"})};
}

}  // namespace lockstep::demos::beliefs
