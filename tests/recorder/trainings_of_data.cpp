// Trainings with data loaders and samplers of all kinds.
#include "lockstep/ddp.h"
#include "tests/recorder/trainings_in_cpp.h"

#include <torch/torch.h>

namespace lockstep::testing {

namespace loaders {
namespace {

namespace data = torch::data;
using data::DataLoaderOptions;

constexpr std::size_t kSamples = 23;

struct NetImpl : torch::nn::Module {
  NetImpl() : fc(register_module("fc", torch::nn::Linear(2, 1))) {}
  at::Tensor forward(const at::Tensor& input) { return fc(input); }
  torch::nn::Linear fc{nullptr};
};
TORCH_MODULE(Net);

// Counts how often it is asked; with `draws` each sample takes a random number.
struct Counted : data::datasets::Dataset<Counted> {
  explicit Counted(bool draws = true) : draws(draws) {}
  data::Example<> get(std::size_t index) override {
    ++*asked;
    const auto sample = at::full({2}, static_cast<double>(index));
    return {draws ? sample + at::rand({2}) : sample, at::ones({1})};
  }
  std::optional<std::size_t> size() const override { return kSamples; }
  bool draws;
  std::shared_ptr<std::atomic<int>> asked = std::make_shared<std::atomic<int>>(0);
};

// Trains on what `batches` hands to its argument, one epoch after the other.
void train(
    Here& here,
    const std::function<void(int epoch, const std::function<void(at::Tensor)>&)>& each_batch) {
  Net net;
  DistributedDataParallel ddp(net, {.process_group = here.group()});
  here.recorder.watch(ddp);
  torch::optim::SGD optimizer(ddp->parameters(), 0.001);
  for (int epoch = 0; epoch < 2; ++epoch)
    each_batch(epoch, [&](const at::Tensor& batch) {
      optimizer.zero_grad();
      ddp.forward(batch).square().mean().backward();
      here.recorder.step(optimizer);
    });
  here.say("model", *net);
}

template <class Sampler>
void train_with(
    Here& here, const Sampler& sampler, DataLoaderOptions options,
    const std::function<void(int epoch)>& before = [](int) {}) {
  const Counted dataset(/*draws=*/options.workers() < 2);  // the threads of two would race for it
  const auto loader =
      data::make_data_loader(Counted(dataset).map(data::transforms::Stack<>()), sampler, options);
  train(here, [&](int epoch, const auto& use) {
    before(epoch);
    for (const auto& batch : *loader) use(batch.data);
  });
  here.said << "asked " << *dataset.asked << "\n";
}

void with_a_distributed_sampler(Here& here) {
  DistributedSampler sampler(kSamples, *here.group(), {.seed = 3});
  train_with(here, here.recorder.watch(sampler), DataLoaderOptions(4),
             [&](int epoch) { sampler.set_epoch(epoch); });
}

void with_workers(Here& here) {
  const auto options = DataLoaderOptions(3).workers(2).max_jobs(4);
  train_with(here, here.recorder.watch(DistributedSampler(kSamples, *here.group())), options);
}

void with_workers_out_of_order(Here& here) {
  // One worker: else the order of batches is drawn by the threads.
  const auto options = DataLoaderOptions(3).workers(1).enforce_ordering(false);
  train_with(here, here.recorder.watch(DistributedSampler(kSamples, *here.group())), options);
}

void with_the_sampler_of_libtorch(Here& here) {
  const auto rank = static_cast<std::size_t>(here.rank);
  train_with(here, here.recorder.watch(data::samplers::DistributedRandomSampler(kSamples, 2, rank)),
             DataLoaderOptions(4).drop_last(true));
}

void with_a_random_sampler(Here& here) {
  train_with(here, here.recorder.watch(data::samplers::RandomSampler(kSamples)),
             DataLoaderOptions(8));
}

// Knows neither a length nor an end.
struct Endless : data::samplers::Sampler<> {
  explicit Endless(int from) : next_index(static_cast<std::size_t>(from)) {}
  void reset(std::optional<std::size_t> = std::nullopt) override { drawn = 0; }
  std::optional<std::vector<std::size_t>> next(std::size_t count) override {
    std::vector<std::size_t> batch;
    for (std::size_t i = 0; i < count; ++i) batch.push_back((next_index += 2) % kSamples);
    return batch;
  }
  void save(torch::serialize::OutputArchive&) const override {}
  void load(torch::serialize::InputArchive&) override {}
  std::size_t next_index, drawn = 0;
};

void with_an_endless_sampler(Here& here) {
  const auto loader =
      data::make_data_loader(Counted().map(data::transforms::Stack<>()),
                             here.recorder.watch(Endless(here.rank)), DataLoaderOptions(3));
  train(here, [&](int, const auto& use) {
    int left = 3;
    for (const auto& batch : *loader) {
      use(batch.data);
      if (--left == 0) break;
    }
  });
}

void with_a_stream(Here& here) {
  struct Stream : data::datasets::BatchDataset<Stream, std::vector<data::Example<>>, std::size_t> {
    std::vector<data::Example<>> get_batch(std::size_t count) override {
      std::vector<data::Example<>> batch;
      for (std::size_t i = 0; i < count; ++i)
        batch.push_back({at::full({2}, static_cast<double>(next++)), at::ones({1})});
      return batch;
    }
    std::optional<std::size_t> size() const override { return std::nullopt; }
    std::size_t next = 0;
  };
  const auto loader = data::make_data_loader(Stream().map(data::transforms::Stack<>()),
                                             here.recorder.watch(data::samplers::StreamSampler(9)),
                                             DataLoaderOptions(4));
  train(here, [&](int, const auto& use) {
    for (const auto& batch : *loader) use(batch.data);
  });
}

void with_a_dataset_that_has_a_state(Here& here) {
  struct Stateful : data::datasets::StatefulDataset<Stateful> {
    std::optional<std::vector<data::Example<>>> get_batch(std::size_t count) override {
      if (next >= 7) return std::nullopt;
      next += static_cast<int>(count);
      return std::vector<data::Example<>>(count, {at::full({2}, next), at::ones({1})});
    }
    std::optional<std::size_t> size() const override { return std::nullopt; }
    void reset() override { next = 0; }
    void save(torch::serialize::OutputArchive&) const override {}
    void load(torch::serialize::InputArchive&) override {}
    int next = 0;
  };
  const auto loader =
      data::make_data_loader(Stateful().map(data::transforms::Stack<>()), DataLoaderOptions(2));
  train(here, [&](int, const auto& use) {
    for (const auto& batch : *loader) use(batch.data);
  });
}

void with_two_loaders_at_once(Here& here) {
  const auto loader = [&](std::uint64_t seed) {
    return data::make_data_loader(
        Counted().map(data::transforms::Stack<>()),
        here.recorder.watch(DistributedSampler(kSamples, *here.group(), {.seed = seed})),
        DataLoaderOptions(4));
  };
  const auto some = loader(1), others = loader(2);
  train(here, [&](int, const auto& use) {
    auto other = others->begin();
    for (const auto& batch : *some) {
      use(batch.data + other->data.sum());
      ++other;
    }
  });
}

// Saves in the middle of an epoch, and continues in a copy.
void with_a_sampler_that_is_saved(Here& here) {
  auto sampler = here.recorder.watch(DistributedSampler(kSamples, *here.group()));
  here.said << sampler.next(3)->size() << "\n";
  torch::serialize::OutputArchive saved;
  sampler.save(saved);
  std::stringstream bytes;
  saved.save_to(bytes);
  torch::serialize::InputArchive archive;
  archive.load_from(bytes);
  auto other = here.recorder.watch(DistributedSampler(kSamples, *here.group()));
  other.load(archive);
  while (const auto batch = other.next(4))
    for (const auto index : *batch) here.said << index << " ";
}

}  // namespace

std::vector<TrainingInCpp> all() {
  return {
      {"distributed_sampler", with_a_distributed_sampler},
      {"workers", with_workers},
      {"workers_out_of_order", with_workers_out_of_order},
      {"sampler_of_libtorch", with_the_sampler_of_libtorch},
      {"random_sampler", with_a_random_sampler},
      {"endless_sampler", with_an_endless_sampler},
      {"stream", with_a_stream},
      {"dataset_with_a_state", with_a_dataset_that_has_a_state},
      {"two_loaders", with_two_loaders_at_once},
      {"saved_sampler", with_a_sampler_that_is_saved},
  };
}

}  // namespace loaders

std::vector<TrainingInCpp> trainings_of_data() {
  return loaders::all();
}

}  // namespace lockstep::testing
