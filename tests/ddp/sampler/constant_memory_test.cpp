// A shuffled order that is not stored.
#include "tests/ddp/sampler/samplers.h"

#include <array>
#include <set>

namespace lockstep {
namespace {

TEST(ConstantMemory, IsEnoughForBillionsOfSamples) {
  constexpr std::size_t kSize = (std::size_t{1} << 33) + 5;
  std::set<std::size_t> seen;
  for (std::int64_t rank = 0; rank < 3; ++rank) {
    auto sampler = sampler_of(kSize, 3, rank, {.constant_memory = true});
    EXPECT_EQ(sampler.size(), kSize / 3 + (kSize % 3 > 0 ? 1 : 0));
    const auto first = *sampler.next(1000);
    seen.insert(first.begin(), first.end());
    sampler.set_epoch(1);
    sampler.reset();
    EXPECT_NE(*sampler.next(1000), first);
    EXPECT_FALSE(sampler.shared_order().defined());
  }
  EXPECT_EQ(seen.size(), 3000U);
  EXPECT_LT(*seen.rbegin(), kSize);
  EXPECT_GT(*seen.rbegin(), kSize / 10 * 9) << "the order reaches the end of the dataset";
}

// Each of 10 samples comes to each place equally often: chi-square of 81 degrees of freedom, which
// is above 140 once in twenty thousand. The seeds are fixed, so that it always has one value.
TEST(ConstantMemory, GivesARandomOrder) {
  constexpr int kOrders = 20'000;
  constexpr std::size_t kSize = 10;
  std::array<std::array<int, kSize>, kSize> count{};
  for (std::uint64_t seed = 0; seed < kOrders; ++seed) {
    const auto order = sampler_of(kSize, 1, 0, {.seed = seed, .constant_memory = true}).indices();
    for (std::size_t place = 0; place < kSize; ++place) ++count[place][order[place]];
  }
  constexpr double kExpected = static_cast<double>(kOrders) / kSize;
  double chi_square = 0;
  for (const auto& place : count)
    for (const int times : place)
      chi_square += (times - kExpected) * (times - kExpected) / kExpected;
  EXPECT_LT(chi_square, 140);
}

TEST(ConstantMemory, IsForShuffledOrders) {
  expect_refusal([] { sampler_of(9, 2, 0, {.shuffle = false, .constant_memory = true}); },
                 "constant_memory is set", "shuffle is off");
  const auto order = [](std::size_t, const at::Generator&) { return at::arange(9); };
  expect_refusal([&] { sampler_of(9, 2, 0, {.order = order, .constant_memory = true}); },
                 "constant_memory is set", "order draws another");
  auto stored = sampler_of(9, 2, 0);
  stored.next(2);
  torch::serialize::OutputArchive out;
  stored.save(out);
  auto in = reopened(out);
  expect_refusal([&] { sampler_of(9, 2, 0, {.constant_memory = true}).load(in); },
                 "constant_memory is 0", "expected 1");
}

}  // namespace
}  // namespace lockstep
