// Reviews are good or bad: a classifier of text, trained and evaluated on parts that all ranks
// split alike.
//
//   lockstep launch -n 4 reviews --data reviews.csv --model transformer
//
// The data is a file of comma-separated values with the columns `review` and `sentiment` (positive
// or negative), such as the 50,000 reviews of IMDb. Without it: reviews --data FILE --make 500.
// Under `launch --record FOLDER` the training is recorded, for `lockstep judge FOLDER`.
#include "../arguments.h"
#include "csv.h"
#include "lockstep/ddp.h"
#include "lockstep/recorder.h"

#include <torch/torch.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <iostream>
#include <random>

namespace {

constexpr std::int64_t kWords = 128;       // of a review; longer ones are cut, shorter ones padded
constexpr std::int64_t kBuckets = 10'000;  // that words are hashed to; 0 is padding

using Group = c10::intrusive_ptr<c10d::ProcessGroup>;

// FNV-1a, from 1 to kBuckets: the same on every rank and host, which std::hash does not promise.
std::int64_t bucket_of(const std::string& word) {
  std::uint64_t hash = 14695981039346656037ULL;
  for (const char c : word) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  return static_cast<std::int64_t>(hash % static_cast<std::uint64_t>(kBuckets)) + 1;
}

// int64 [kWords]
at::Tensor numbers_of(const std::string& review) {
  std::vector<std::int64_t> numbers;
  std::string word;
  for (const char c : review + " ") {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0 || byte >= 0x80) {
      word += static_cast<char>(std::tolower(byte));
    } else if (!word.empty()) {
      numbers.push_back(bucket_of(word));
      word.clear();
    }
  }
  numbers.resize(kWords, 0);
  return torch::tensor(numbers);
}

// Samples of a split: `rows` are their places in the whole dataset.
class Reviews : public torch::data::datasets::Dataset<Reviews> {
 public:
  Reviews(at::Tensor words, at::Tensor labels, std::vector<std::size_t> rows)
      : words_(std::move(words)), labels_(std::move(labels)), rows_(std::move(rows)) {}

  torch::data::Example<> get(std::size_t index) override {
    const auto row = static_cast<std::int64_t>(rows_.at(index));
    return {words_[row], labels_[row]};
  }
  std::optional<std::size_t> size() const override { return rows_.size(); }

 private:
  at::Tensor words_, labels_;
  std::vector<std::size_t> rows_;
};

// {words, int64 [N, kWords]; labels, int64 [N]} of the rows in which nothing is empty.
std::pair<at::Tensor, at::Tensor> read(const std::string& path) {
  const auto rows = rows_of_csv(path);
  const auto column = [&](const std::string& name) {
    if (rows.empty()) throw std::runtime_error(path + ": is empty");
    const auto found = std::find(rows[0].begin(), rows[0].end(), name);
    if (found == rows[0].end()) throw std::runtime_error(path + ": has no column '" + name + "'");
    return static_cast<std::size_t>(found - rows[0].begin());
  };
  const auto review = column("review"), sentiment = column("sentiment");
  std::vector<at::Tensor> words;
  std::vector<std::int64_t> labels;
  for (std::size_t i = 1; i < rows.size(); ++i) {
    const auto& row = rows[i];
    if (row[review].empty() || row[sentiment].empty()) continue;
    if (row[sentiment] != "positive" && row[sentiment] != "negative") {
      throw std::runtime_error(path + ": row " + std::to_string(i) + " has the sentiment '" +
                               row[sentiment] + "', expected positive or negative");
    }
    words.push_back(numbers_of(row[review]));
    labels.push_back(row[sentiment] == "positive" ? 1 : 0);
  }
  if (words.empty()) throw std::runtime_error(path + ": has no complete row");
  return {torch::stack(words), torch::tensor(labels)};
}

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

// How many of this rank's samples the model has right.
template <class Sampler>
at::Tensor right_answers(Classifier& net, const Reviews& part, const Sampler& sampler,
                         std::int64_t batch) {
  const torch::NoGradGuard no_gradients;
  auto right = torch::zeros({}, torch::kInt64);
  net->eval();
  const auto loader = loader_of(part, sampler, batch);
  for (const auto& each : *loader) {
    right += net->forward(each.data).argmax(1).eq(each.target).sum();
  }
  net->train();
  return right;
}

struct Accuracy {
  double distinct;    // each sample once
  double of_article;  // all_reduce(right answers) / len(validset), of a sampler that pads
};

Accuracy accuracy(Classifier& net, const Reviews& part, lockstep::Recorder& recorder,
                  std::int64_t batch) {
  const auto& group = recorder.group();
  const auto sampler = [&](bool pads) {
    return lockstep::DistributedSampler(*part.size(), *group, {.shuffle = false, .pad = pads});
  };
  const auto share = [&](const auto& of) {
    const auto right = right_answers(net, part, of, batch);
    lockstep::all_reduce(group, right, lockstep::ReduceOp::SUM, {.name = "right answers"});
    return right.template item<double>() / static_cast<double>(*part.size());
  };
  // The article's is not recorded: judge finds the samples that it counts twice.
  return {share(recorder.watch(sampler(false))), share(sampler(true))};
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
  const auto [words, labels] = read(arguments.text("--data"));
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
  lockstep::DistributedDataParallel ddp(net, {.process_group = group});
  recorder.watch(ddp);
  auto sampler = recorder.watch(lockstep::DistributedSampler(*training.size(), *group));
  check_batches(group, (static_cast<std::int64_t>(sampler.size()) + batch - 1) / batch);
  torch::optim::Adam optimizer(ddp->parameters(), torch::optim::AdamOptions(0.01));

  for (std::int64_t epoch = 0; epoch < arguments.number("--epochs"); ++epoch) {
    sampler.set_epoch(epoch);
    auto loss_sum = torch::zeros({});
    std::int64_t batches = 0;
    const auto loader = loader_of(training, sampler, batch);
    for (const auto& each : *loader) {
      optimizer.zero_grad();
      const auto loss = torch::cross_entropy_loss(ddp.forward(each.data), each.target);
      loss.backward();
      recorder.step(optimizer);
      loss_sum += loss.detach();
      ++batches;
    }
    loss_sum /= static_cast<double>(std::max<std::int64_t>(batches, 1));
    lockstep::all_reduce(group, loss_sum, lockstep::ReduceOp::AVG, {.name = "loss"});
    const auto [distinct, of_article] = accuracy(net, evaluation, recorder, batch);
    lockstep::print_rank_0(group, "epoch ", epoch, ": loss ", loss_sum.item<double>(),
                           ", accuracy ", distinct, " of ", *evaluation.size(),
                           " reviews; with a padded sampler ", of_article);
  }
}

// Reviews of made-up words, of which some tell.
void make(const std::string& path, std::int64_t count) {
  const std::vector<std::string> good{"great", "moving", "\"brilliant\""},
      bad{"dull", "awful", "tired, slow"};
  std::mt19937 draw(7);
  std::ofstream file(path);
  file << "review,sentiment\n";
  for (std::int64_t i = 0; i < count; ++i) {
    const bool is_good = draw() % 2 == 0;
    std::string text;
    for (auto words = draw() % 30; words > 0; --words)
      text += "word" + std::to_string(draw() % 500) + " ";
    text += (is_good ? good : bad)[draw() % 3];
    file << csv_field(text) << "," << (is_good ? "positive" : "negative") << "\n";
    if (i % 50 == 49) file << ",positive\n";  // to be dropped
  }
  if (!file.flush()) throw std::runtime_error(path + ": cannot be written");
}

}  // namespace

int main(int count, char** words) {
  try {
    const Arguments arguments(count, words,
                              {{"--data", "reviews.csv"},
                               {"--make", "0"},
                               {"--model", "linear"},
                               {"--epochs", "3"},
                               {"--batch", "16"}});
    if (arguments.number("--make") > 0) {
      make(arguments.text("--data"), arguments.number("--make"));
    } else {
      train(arguments);
    }
  } catch (const std::exception& error) {
    lockstep::report_to_launcher(error.what());
    std::cerr << error.what() << "\n";
    return 1;
  }
}
