// The sampler behind LibTorch's data loader, which draws from a copy.
#include "tests/ddp/sampler/samplers.h"

#include <set>

namespace lockstep {
namespace {

DistributedSampler first_of_two(std::size_t size) {
  return {size, {.num_replicas = 2, .rank = 0, .seed = 4}};
}

class Numbers : public torch::data::Dataset<Numbers, std::size_t> {
 public:
  explicit Numbers(std::size_t count) : count_(count) {}
  std::size_t get(std::size_t index) override { return index; }
  std::optional<std::size_t> size() const override { return count_; }

 private:
  std::size_t count_;
};

TEST(SamplerBehindALoader, SharesItsEpochWithTheDataLoadersCopy) {
  for (const std::size_t workers : {0U, 2U}) {
    auto sampler = first_of_two(20);
    auto loader = torch::data::make_data_loader(
        Numbers(20), sampler, torch::data::DataLoaderOptions().batch_size(3).workers(workers));
    std::set<Indices> orders;
    for (std::int64_t epoch = 0; epoch < 4; ++epoch) {
      sampler.set_epoch(epoch);
      Indices seen;
      for (const auto& batch : *loader) seen.insert(seen.end(), batch.begin(), batch.end());
      EXPECT_EQ(seen, sampler.indices()) << workers << " workers, epoch " << epoch;
      orders.insert(seen);
    }
    EXPECT_EQ(orders.size(), 4U) << "an epoch was ignored";
  }
}

// A program that was ended and started again: a new sampler, a new loader, one archive.
struct Training {
  explicit Training(std::size_t workers, std::size_t size = 20)
      : sampler(first_of_two(size)),
        loader(torch::data::make_data_loader(
            Numbers(size), sampler,
            torch::data::DataLoaderOptions().batch_size(3).workers(workers))) {}

  // At most so many batches.
  Indices pass(std::size_t batches = 100) {
    Indices seen;
    for (auto batch = loader->begin(); batches > 0 && batch != loader->end(); ++batch) {
      seen.insert(seen.end(), batch->begin(), batch->end());
      if (--batches == 0) break;
    }
    return seen;
  }

  DistributedSampler sampler;
  decltype(torch::data::make_data_loader(Numbers(1), std::declval<DistributedSampler>(),
                                         torch::data::DataLoaderOptions())) loader;
};

Indices from(const Indices& all, std::size_t position) {
  return {all.begin() + static_cast<std::ptrdiff_t>(position), all.end()};
}

// A loader with workers has drawn up to four batches that the program has not seen.
TEST(SamplerBehindALoader, ContinuesAfterTheSamplesThatWereUsedWhereWorkersDrawAhead) {
  Training first(2);
  auto batch = first.loader->begin();
  Indices used = *batch;
  torch::serialize::OutputArchive ahead, out;
  first.sampler.save(ahead);
  first.sampler.save(out, used.size());

  Training second(2);
  auto in = reopened(out);
  second.sampler.load(in);
  EXPECT_EQ(second.pass(), from(first.sampler.indices(), used.size()));
  EXPECT_EQ(second.pass(), first.sampler.indices());

  auto drawn = reopened(ahead);
  second.sampler.load(drawn);
  EXPECT_LT(second.pass().size(), first.sampler.size() - used.size()) << "it counts what was drawn";
}

// The loader copies the sampler after the load, so that the copy's dataset is the sampler's.
TEST(SamplerBehindALoader, RefusesAPositionInADatasetOfAnotherSize) {
  DistributedSampler saved = first_of_two(12);
  saved.next(2);
  torch::serialize::OutputArchive out;
  saved.save(out);
  for (const std::size_t size : {8U, 20U}) {
    DistributedSampler sampler = first_of_two(size);
    auto in = reopened(out);
    sampler.load(in);
    EXPECT_EQ(sampler.size(), size / 2);
    const auto loader = torch::data::make_data_loader(Numbers(size), sampler, 3);
    try {
      static_cast<void>(*loader->begin());
      ADD_FAILURE() << "a dataset of " << size;
    } catch (const UsageError& error) {
      EXPECT_EQ(std::string(error.what()),
                "DistributedSampler: the loaded position belongs to a dataset of 12 samples, but "
                "this sampler's has " +
                    std::to_string(size) +
                    "; use a dataset of the saved size, or begin another epoch with set_epoch()");
    }
    sampler.set_epoch(1);
    Indices seen;
    for (const auto& batch : *loader) seen.insert(seen.end(), batch.begin(), batch.end());
    EXPECT_EQ(seen, sampler.indices());
  }
}

}  // namespace
}  // namespace lockstep
