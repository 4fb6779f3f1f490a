// A sampler alone: ranks take turns with the shuffled samples, and the first ones are repeated
// until all have as many.
#include "subjects.h"

#include <ATen/CPUGeneratorImpl.h>

namespace {

class StridedSampler final : public lockstep::Shard {
 public:
  StridedSampler(const lockstep::ShardOptions& options, int rank, int world_size)
      : options_(options), rank_(rank), world_size_(world_size) {}

  void set_epoch(int64_t epoch) override { epoch_ = epoch; }

  std::vector<int64_t> draw() override {
    auto order = torch::arange(options_.length);
    if (options_.shuffle) {
      const auto generator =
          at::detail::createCPUGenerator(static_cast<uint64_t>(options_.seed + epoch_));
      order = torch::randperm(options_.length, generator, torch::kLong);
    }
    int64_t count = options_.length;
    if (options_.pad) count += (world_size_ - count % world_size_) % world_size_;
    const auto samples = order.accessor<int64_t, 1>();
    std::vector<int64_t> own;
    for (int64_t place = rank_; place < count; place += world_size_)
      own.push_back(samples[place % options_.length]);
    return own;
  }

 private:
  const lockstep::ShardOptions options_;
  const int rank_, world_size_;
  int64_t epoch_ = 0;
};

}  // namespace

lockstep::Subject strided_sampler() {
  return {.name = "strided_sampler",
          .shard = [](const lockstep::ShardOptions& options,
                      lockstep::RankContext& here) -> std::unique_ptr<lockstep::Shard> {
            if (options.drop_last) throw lockstep::Unsupported("the sampler drops no samples");
            if (options.constant_memory)
              throw lockstep::Unsupported("the sampler stores its order");
            if (options.through_loader)
              throw lockstep::Unsupported("the sampler comes without a loader");
            return std::make_unique<StridedSampler>(options, here.rank(), here.size());
          }};
}
