// Frames of native stacks.
#pragma once

#include "harness/base/fields.h"

#include <string>
#include <vector>

namespace lockstep {

// The call of a function, or of one that was inlined into it. Where its line is not known, neither
// is `file`, or only that; then `library` has the name of the program or library.
struct StackFrame {
  enum class Origin { program, libtorch, standard_library, unknown };
  std::string function;  // "void f<int>(int) const", as the compiler writes it; empty: unknown
  std::string file;      // "launch.cpp", without its folder
  int line = 0;          // 0: unknown
  std::string library;   // "libc.so.6", without its folder
  Origin origin = Origin::unknown;  // whose code the line is of

  // "void f<int>(int) const at launch.cpp:40", "abort in libc.so.6", "at an address of no file".
  std::string text() const;
  // The same without template arguments, parameters, return type and unnamed namespaces: "f at
  // launch.cpp:40".
  std::string short_text() const;

  bool operator==(const StackFrame&) const = default;
  static constexpr auto fields() {
    return std::tuple{field("function", &StackFrame::function, text_up_to(1u << 20)),
                      field("file", &StackFrame::file, text_up_to(4096)),
                      field("line", &StackFrame::line, at_least(0)),
                      field("library", &StackFrame::library, text_up_to(4096)),
                      field("origin", &StackFrame::origin)};
  }
};
using Stack = std::vector<StackFrame>;  // innermost first

// The texts of the relevant frames of a stack, innermost first: the innermost frame whose function
// has a name, then those of files with lines, down to the function of the program (a scenario's, or
// main); without the frames of the C++ library and of raising a signal, each short. Where nothing
// is left, the innermost frame with a name.
std::vector<std::string> story_of(const Stack& stack);

}  // namespace lockstep
