#include "harness/base/number_set.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace lockstep {
namespace {

TEST(NumberSet, IsWrittenAsRangesAndReadBack) {
  for (const NumberSet& numbers :
       {NumberSet{1}, NumberSet{1, 2}, NumberSet{3, 5, 6, 7, 9}, NumberSet{2, 4}})
    EXPECT_EQ(NumberSet::parsed(numbers.text(), 9), numbers) << numbers.text();
  EXPECT_EQ((NumberSet{1, 2, 3, 7, 9, 10}).text(), "1-3,7,9-10");
  EXPECT_EQ(NumberSet::parsed("1-2,3-4", 9)->text(), "1-4");
}

TEST(NumberSet, ATextThatIsNoListOfNumbersGivesNone) {
  for (const char* text :
       {"",        "0",  "10",   "1,1", "3-2", "2-2", "1-10", "1-2-3",
        "5,4",     "1,", ",1",   "-1",  "x",   "1 ",  "1-",   "99999999999999999999",
        "1-3,2-4", "01", "1-03", "+1"})
    EXPECT_EQ(NumberSet::parsed(text, 9), std::nullopt) << text;
}

TEST(NumberSet, AHundredMillionNumbersAreOneRange) {
  const auto numbers = NumberSet::parsed("1-100000000", 100'000'000);
  ASSERT_TRUE(numbers);
  EXPECT_EQ(numbers->ranges().size(), 1u);
  EXPECT_EQ(numbers->count(), 100'000'000);
}

// The numbers from 1 to 10 whose bits are set.
NumberSet set_of(uint64_t bits, std::set<int>& numbers) {
  for (int number = 1; number <= 10; ++number)
    if ((bits >> number & 1) != 0) numbers.insert(number);
  return NumberSet(std::vector<int>(numbers.begin(), numbers.end()));
}

TEST(NumberSet, AddsAndCutsAsASetOfNumbersDoes) {
  for (uint64_t bits = 0; bits < 1 << 20; bits += 37) {
    std::set<int> a, b;
    auto sum = set_of(bits, a);
    const auto other = set_of(bits >> 10, b);
    std::vector<int> both;
    std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(both));
    ASSERT_EQ(overlap({sum, other}), !both.empty());
    sum.add(other);
    a.merge(b);
    ASSERT_EQ(sum, NumberSet(std::vector<int>(a.begin(), a.end())));
    ASSERT_EQ(sum.count(), static_cast<int64_t>(a.size()));
    const int most = static_cast<int>(bits % 12);
    sum.cut_after(most);
    a.erase(a.upper_bound(most), a.end());
    ASSERT_EQ(sum, NumberSet(std::vector<int>(a.begin(), a.end())));
  }
}

}  // namespace
}  // namespace lockstep
