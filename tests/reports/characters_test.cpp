#include "reports/characters.h"

#include <gtest/gtest.h>

namespace lockstep::reports {
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
  for (const char* text : {"a\nb", "a\rb", "a\tb", "\x1b[0m", "\x7f"}) {
    EXPECT_FALSE(is_one_line(text));
    EXPECT_TRUE(is_one_line(one_line(text)));
  }
  EXPECT_EQ(one_line("a\nb ä"), "a\\x0ab ä");
}

}  // namespace
}  // namespace lockstep::reports
