#include "harness/base/words.h"

#include "harness/base/dtype.h"
#include "harness/base/fields.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

enum class Word { one, throw_, last };

struct Listed {
  std::vector<Word> words;
  Word word = Word::last;
  auto operator<=>(const Listed&) const = default;
  static constexpr auto fields() {
    return std::tuple{field("words", &Listed::words, one_of<Word::last, Word::one>),
                      field("word", &Listed::word, one_of<Word::last, Word::throw_>)};
  }
};

std::string refusal(const std::string& json) {
  try {
    from_json<Listed>(Json::parse(json), "case");
  } catch (const FieldError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Words, AreTheEnumeratorsNamesWithoutTheUnderscoreOfAKeyword) {
  EXPECT_EQ(word_of(Word::one), "one");
  EXPECT_EQ(word_of(Word::throw_), "throw");
  EXPECT_EQ(value_of_word<Word>("throw"), Word::throw_);
  EXPECT_EQ(value_of_word<Word>("throw_"), std::nullopt);
  EXPECT_EQ(words::kAll<Word>.size(), 3u);
}

TEST(Words, OfAFieldAreThoseThatItAllows) {
  EXPECT_EQ(to_json(Listed{{Word::one}, Word::throw_}).dump(),
            R"({"words":["one"],"word":"throw"})");
  EXPECT_EQ(refusal(R"({"words":["last","throw"]})"),
            "case.words[1]: unknown value 'throw'; known: last, one");
  EXPECT_EQ(refusal(R"({"word":"one"})"), "case.word: unknown value 'one'; known: last, throw");
  EXPECT_EQ(refusal(R"({"word":1})"), "case.word: expected a string, found 1");
}

TEST(Words, GetSmallerInTheOrderInWhichTheirFieldListsThem) {
  std::vector<std::string> steps;
  for (const auto& step : smaller_by_field(Listed{{Word::one, Word::last}, Word::throw_}))
    steps.push_back(step.dump());
  EXPECT_EQ(steps,
            (std::vector<std::string>{
                R"({"words":[],"word":"throw"})", R"({"words":[],"word":"throw"})",
                R"({"words":["last"],"word":"throw"})", R"({"words":["one"],"word":"throw"})",
                R"({"words":["last","last"],"word":"throw"})",
                R"({"words":["one","last"],"word":"last"})"}));
}

TEST(Dtypes, KnowTheirNumbersByTheirWords) {
  EXPECT_EQ(traits_of("bfloat16").precision_bits, 8);
  EXPECT_EQ(traits_of("bool").bytes, 1);
  EXPECT_EQ(traits_of("mixed").bytes, 0);
  EXPECT_TRUE(is_half(Dtype::float16));
  EXPECT_FALSE(is_half(Dtype::int16));
}

}  // namespace
}  // namespace lockstep
