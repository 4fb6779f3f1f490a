#include "ddp/base/characters.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(Characters, OfNamesAreOneLineThatATerminalShowsAsItIs) {
  EXPECT_EQ(printable("layers.0.weight"), "layers.0.weight");
  EXPECT_EQ(printable("模型/größe ✓.pt"), "模型/größe ✓.pt");
  EXPECT_EQ(printable("a\x1b[31mb\r\n\tc\x7f"), "a\\x1b[31mb\\x0d\\x0a\\x09c\\x7f");
  EXPECT_EQ(printable("\xc2\x9b \xe2\x80\xa8 \xe2\x80\xae"),
            "\\xc2\\x9b \\xe2\\x80\\xa8 \\xe2\\x80\\xae");
  EXPECT_EQ(printable("\xff\xc3"), "\\xff\\xc3");
  EXPECT_EQ(printable(""), "");
}

}  // namespace
}  // namespace lockstep
