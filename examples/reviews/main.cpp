// Reviews are good or bad: a classifier of text, trained and evaluated on parts that all ranks
// split alike.
//
//   lockstep launch -n 4 reviews --data reviews.csv --model transformer
//
// The data is a file of comma-separated values, of which --text and --label name the columns:
// `review` and `sentiment` (positive or negative), as the 50,000 reviews of IMDb have it; for
// hotels reviewed in Chinese, ChnSentiCorp_htl_all.csv, --label label (1 or 0). Without it: reviews
// --data FILE --make 500. Every --log-steps steps it shows the loss. With --checkpoint FILE the
// last three checkpoints and the one of the best f1, FILE.best, are kept, and training continues
// from FILE; with --exact 1 it then has the bits of one that was never stopped, for any number of
// ranks. Under `launch --record FOLDER` the training is recorded, for `lockstep judge FOLDER`.
#include "../arguments.h"
#include "../training.h"
#include "data.h"
#include "lockstep/ddp.h"
#include "lockstep/recorder.h"
#include "words.h"

#include <torch/torch.h>

#include <algorithm>
#include <iostream>

namespace {

// An average of embeddings, over words that are no padding, after an encoder if there is one.
struct ClassifierImpl : torch::nn::Module {
  explicit ClassifierImpl(bool has_encoder) {
    embedding = register_module(
        "embedding",
        torch::nn::Embedding(torch::nn::EmbeddingOptions(kBuckets + 1, kWidth).padding_idx(0)));
    if (has_encoder) {
      encoder = register_module(
          "encoder",
          torch::nn::TransformerEncoder(
              torch::nn::TransformerEncoderLayer(
                  torch::nn::TransformerEncoderLayerOptions(kWidth, 2).dim_feedforward(64).dropout(
                      0.1)),
              1));
    }
    out = register_module("out", torch::nn::Linear(kWidth, 2));
  }

  // int64 [N, kWords] -> [N, 2]
  at::Tensor forward(const at::Tensor& words) {
    const auto is_padding = words.eq(0);
    auto x = embedding(words).transpose(0, 1);  // [kWords, N, kWidth]
    if (encoder) x = encoder(x, /*src_mask=*/at::Tensor(), is_padding);
    const auto weight = is_padding.logical_not().to(x.dtype()).transpose(0, 1).unsqueeze(2);
    return out((x * weight).sum(0) / weight.sum(0).clamp_min(1));
  }

  static constexpr std::int64_t kWidth = 32;
  torch::nn::Embedding embedding{nullptr};
  torch::nn::TransformerEncoder encoder{nullptr};
  torch::nn::Linear out{nullptr};
};
TORCH_MODULE(Classifier);

template <class Sampler>
auto loader_of(const Reviews& part, const Sampler& sampler, std::int64_t batch) {
  return torch::data::make_data_loader(Reviews(part).map(torch::data::transforms::Stack<>()),
                                       sampler, static_cast<std::size_t>(batch));
}

// int64 [4], of this rank's samples: right answers, good reviews that were found, bad ones that
// were taken for good, and good ones that were missed.
template <class Sampler>
at::Tensor answers(Classifier& net, const Reviews& part, const Sampler& sampler,
                   std::int64_t batch) {
  const torch::NoGradGuard no_gradients;
  const auto counts = torch::zeros(4, torch::kInt64);
  net->eval();
  const auto loader = loader_of(part, sampler, batch);
  for (const auto& each : *loader) {
    const auto is_said = net->forward(each.data).argmax(1).eq(1), is_good = each.target.eq(1);
    counts[0] += is_said.eq(is_good).sum();
    counts[1] += is_said.logical_and(is_good).sum();
    counts[2] += is_said.logical_and(is_good.logical_not()).sum();
    counts[3] += is_said.logical_not().logical_and(is_good).sum();
  }
  net->train();
  return counts;
}

struct Score {
  double accuracy;    // each sample once
  double f1;          // of good reviews, each sample once
  double of_article;  // all_reduce(right answers) / len(validset), of a sampler that pads
};

Score score(Classifier& net, const Reviews& part, lockstep::Recorder& recorder,
            std::int64_t batch) {
  const auto& group = recorder.group();
  const auto sampler = [&](bool pads) {
    return lockstep::DistributedSampler(*part.size(), *group, {.shuffle = false, .pad = pads});
  };
  const auto counted = [&](const auto& of) {
    const auto counts = answers(net, part, of, batch);
    lockstep::all_reduce(group, counts, lockstep::ReduceOp::SUM, {.name = "answers"});
    return std::vector<double>(counts.template data_ptr<std::int64_t>(),
                               counts.template data_ptr<std::int64_t>() + counts.numel());
  };
  const auto count = static_cast<double>(*part.size());
  // The article's is not recorded: judge finds the samples that it counts twice.
  const auto once = counted(recorder.watch(sampler(false))), padded = counted(sampler(true));
  const double said_or_good = 2 * once[1] + once[2] + once[3];
  return {once[0] / count, said_or_good > 0 ? 2 * once[1] / said_or_good : 0, padded[0] / count};
}

// Ranks wait for each other in every batch. Those with another file, or another --batch, would wait
// for a batch that never comes.
void check_batches(const Group& group, std::int64_t batches) {
  const auto all = lockstep::all_gather(group, torch::tensor(batches), {.name = "batches"});
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank].equal(all[0])) continue;
    throw std::invalid_argument(
        "rank " + std::to_string(rank) + " has " + std::to_string(all[rank].item<std::int64_t>()) +
        " batches an epoch, rank 0 has " + std::to_string(all[0].item<std::int64_t>()) +
        "; expected one file and one --batch on all ranks");
  }
}

void train(const Arguments& arguments) {
  const std::string& model = arguments.text("--model");
  if (model != "linear" && model != "transformer") {
    throw std::invalid_argument("--model is '" + model + "', expected linear or transformer");
  }
  const std::int64_t batch = arguments.number("--batch");
  if (batch == 0) throw std::invalid_argument("--batch is 0, expected at least 1");
  lockstep::Recorder recorder(lockstep::init_process_group());
  const auto& group = recorder.group();
  const auto [words, labels] =
      read_reviews(arguments.text("--data"), arguments.text("--text"), arguments.text("--label"));
  // With another seed on each rank, or none, one would train on what another evaluates.
  const auto parts =
      lockstep::random_split(static_cast<std::size_t>(words.size(0)), {0.9, 0.1}, 42);
  if (parts[1].empty()) {
    throw std::invalid_argument(arguments.text("--data") + ": has " +
                                std::to_string(words.size(0)) +
                                " reviews, expected at least 10, of which one is for evaluation");
  }
  const Reviews training(words, labels, parts[0]), evaluation(words, labels, parts[1]);

  torch::manual_seed(
      static_cast<std::uint64_t>(group->getRank()));  // dropout differs between ranks
  Classifier net(model == "transformer");
  // See examples/cifar10 for why that is exact.
  lockstep::DistributedDataParallel ddp(
      net, {.process_group = group, .find_unused_parameters = arguments.number("--exact") != 0});
  recorder.watch(ddp);
  auto sampler = recorder.watch(lockstep::DistributedSampler(*training.size(), *group));
  const std::int64_t batches = (static_cast<std::int64_t>(sampler.size()) + batch - 1) / batch;
  check_batches(group, batches);
  torch::optim::Adam optimizer(ddp->parameters(), torch::optim::AdamOptions(0.01));

  std::int64_t epoch = 0;
  const lockstep::Checkpoint checkpoint{
      .model = &*net,
      .optimizer = &optimizer,
      .sampler = &sampler,
      .epoch = &epoch,
      .generators = {torch::globalContext().defaultGenerator(torch::kCPU)}};
  const std::string& path = arguments.text("--checkpoint");
  double best_f1 = -1;
  if (is_seen_by_any_rank(group, path)) {
    if (is_seen_by_any_rank(group, path + ".best")) {
      lockstep::load_checkpoint(path + ".best", group, {.model = &*net});
      best_f1 = score(net, evaluation, recorder, batch).f1;
    }
    lockstep::load_checkpoint(path, group, checkpoint);
    lockstep::print_rank_0(group, "continues after epoch ", epoch);
  }

  LossLog log(group, batches, arguments.number("--log-steps"));
  while (epoch < arguments.number("--epochs")) {
    sampler.set_epoch(epoch);
    const auto loader = loader_of(training, sampler, batch);
    for (const auto& each : *loader) {
      optimizer.zero_grad();
      const auto loss = torch::cross_entropy_loss(ddp.forward(each.data), each.target);
      loss.backward();
      recorder.step(optimizer);
      log.add(epoch + 1, loss);
    }
    const double loss = log.end_epoch();
    ++epoch;
    const auto now = score(net, evaluation, recorder, batch);
    lockstep::print_rank_0(group, "epoch ", epoch, ": loss ", loss, ", accuracy ", now.accuracy,
                           " of ", *evaluation.size(), " reviews, f1 ", now.f1,
                           "; with a padded sampler ", now.of_article);
    const bool is_best = now.f1 > best_f1;
    best_f1 = std::max(best_f1, now.f1);
    if (!path.empty())
      lockstep::save_checkpoint(path, group, checkpoint, {.keep_last = 3, .is_best = is_best});
  }
}

}  // namespace

int main(int count, char** words) {
  try {
    const Arguments arguments(count, words,
                              {{"--data", "reviews.csv"},
                               {"--make", "0"},
                               {"--text", "review"},
                               {"--label", "sentiment"},
                               {"--model", "linear"},
                               {"--epochs", "3"},
                               {"--batch", "16"},
                               {"--log-steps", "10"},
                               {"--exact", "0"},
                               {"--checkpoint", ""}});
    if (arguments.number("--make") > 0) {
      make_reviews(arguments.text("--data"), arguments.number("--make"));
    } else {
      train(arguments);
    }
  } catch (const std::exception& error) {
    lockstep::report_to_launcher(error.what());
    std::cerr << error.what() << "\n";
    return 1;
  }
}
