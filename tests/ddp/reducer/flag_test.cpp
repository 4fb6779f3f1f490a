#include "ddp/reducer/flag.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <vector>

namespace lockstep {
namespace {

constexpr at::ScalarType kDtypes[] = {at::kBFloat16, at::kHalf, at::kFloat, at::kDouble};

// Rank after rank, as a ring adds, in the dtype of the gradients.
bool is_well(const std::vector<PassFlag>& flags, at::ScalarType dtype) {
  const FlagForm form(dtype, static_cast<int>(flags.size()));
  at::Tensor sum = at::zeros({form.element_count()}, dtype);
  for (const PassFlag& each : flags) {
    const at::Tensor row = at::full({form.element_count()}, 7, dtype);  // of the pass before
    form.write(row, each);
    sum += row;
  }
  return form.is_well(sum);
}

constexpr std::size_t kWorlds[] = {1, 2, 3, 4, 7, 8, 15, 16, 31, 64, 257, 2049, 4097};

TEST(Flags, AreOneElementInSmallWorlds) {
  for (const int world : {1, 2, 4, 7}) {
    EXPECT_EQ(FlagForm(at::kFloat, world).element_count(), 1) << world;
    EXPECT_EQ(FlagForm(at::kDouble, world).element_count(), 1) << world;
  }
  EXPECT_EQ(FlagForm(at::kFloat, 8).element_count(), 2);
  EXPECT_EQ(FlagForm(at::kBFloat16, 2).element_count(), 2);
  EXPECT_EQ(FlagForm(at::kBFloat16, 16).element_count(), 8);
  EXPECT_EQ(FlagForm(at::kFloat, 1 << 20).element_count(), 8);
}

TEST(Flags, AreWellWhereAllRanksAreInOneStepHoweverManyTheyAre) {
  for (const auto dtype : kDtypes)
    for (const std::size_t world : kWorlds)
      for (const std::int64_t number : {0, 1, 2, 3, 4, 5, 6, 7, 1'000'003})
        EXPECT_TRUE(is_well(std::vector<PassFlag>(world, {.number = number}), dtype))
            << dtype << " " << world << " " << number;
}

TEST(Flags, ShowThatOneRankIsInAnotherStep) {
  for (const auto dtype : kDtypes)
    for (const std::size_t world : kWorlds)
      for (const std::int64_t number : {0, 5, 7})
        for (const std::int64_t ahead : {1, 2, 7, 12}) {
          std::vector<PassFlag> flags(world, {.number = number});
          flags[world / 2].number += ahead;
          EXPECT_EQ(is_well(flags, dtype), world == 1)
              << dtype << " " << world << " " << number << " " << ahead;
        }
}

TEST(Flags, ShowThatARankHasFailed) {
  for (const auto dtype : kDtypes)
    for (const std::size_t world : kWorlds)
      for (const bool is_of_all : {false, true}) {
        std::vector<PassFlag> flags(world, {.is_raised = is_of_all, .number = 3});
        flags.back().is_raised = true;
        EXPECT_FALSE(is_well(flags, dtype)) << dtype << " " << world;
      }
}

}  // namespace
}  // namespace lockstep
