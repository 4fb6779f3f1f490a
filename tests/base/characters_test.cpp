#include "harness/base/characters.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(Characters, AWordThatAShellLeavesAloneIsAsItIs) {
  for (const char* word : {"./lockstep", ".lockstep/failures/a_b.c-123456.json", "a,b=c@1%+:"})
    EXPECT_EQ(shell_word(word), word);
}

TEST(Characters, AnyOtherWordIsQuoted) {
  EXPECT_EQ(shell_word(""), "''");
  EXPECT_EQ(shell_word("a b"), "'a b'");
  EXPECT_EQ(shell_word("$HOME`x`*?\"\\"), "'$HOME`x`*?\"\\'");
  EXPECT_EQ(shell_word("it's"), "'it'\\''s'");
  EXPECT_EQ(shell_word("~/ä"), "'~/ä'");
}

TEST(Characters, AWordIsOneLineWhateverIsInIt) {
  EXPECT_EQ(shell_word("a\nb"), "$'a\\x0ab'");
  EXPECT_EQ(shell_word("it's\\\r"), "$'it\\'s\\\\\\x0d'");
  EXPECT_EQ(shell_word("\xff ä"), "$'\\xff \\xc3\\xa4'");
}

TEST(Characters, OneLineSpellsWhatBreaksIt) {
  EXPECT_TRUE(is_one_line("a · b"));
  const char* c1 =
      "\xc2\x9b"
      "31m";
  for (const char* text :
       {"a\nb", "a\rb", "a\tb", "\x1b[0m", "\x7f", c1, "\u202e", "\u2028", "\xff"}) {
    EXPECT_FALSE(is_one_line(text));
    EXPECT_TRUE(is_one_line(one_line(text)));
  }
  for (const char* text :
       {"a\u200bb", "\ufeffa", "a\U000e0041", "a\u2060", "a\u00ad", "\u3164", "a\u200db"})
    EXPECT_EQ(one_line(text).find(text), std::string::npos);
  EXPECT_EQ(one_line("\u2764\ufe0f"), "\u2764\ufe0f");
  EXPECT_EQ(one_line("a\nb ä"), "a\\x0ab ä");
  EXPECT_EQ(one_line("\u202e"), "\\xe2\\x80\\xae");
  EXPECT_EQ(legible("a\n\t\u009b\xff"), "a\n\t\\xc2\\x9b\\xff");
}

}  // namespace
}  // namespace lockstep
