#include "cli/print.h"

#include "cli/machine.h"
#include "cli/output/github.h"
#include "harness/base/characters.h"
#include "harness/base/text.h"
#include "reports/fit.h"

#include <algorithm>
#include <iostream>
#include <unistd.h>

namespace lockstep::cli {

namespace {

std::ostream* text_stream = &std::cout;

std::string fitted_to(int descriptor, const std::string& text, size_t columns_most) {
  const size_t own = columns_if_terminal(descriptor);
  const size_t columns =
      own == 0 || columns_most == 0 ? own + columns_most : std::min(own, columns_most);
  const reports::Style style{.unicode = locale_is_utf8(), .columns = columns};
  return without_commands(joined(reports::fitted(split(legible(text), '\n'), style), "\n"));
}

}  // namespace

void print(const std::string& text, size_t columns_most) {
  *text_stream << fitted_to(STDOUT_FILENO, text, columns_most);
}

void print_to_stderr(const std::string& sentence) {
  std::cerr << fitted_to(STDERR_FILENO, "lockstep: " + sentence, 0) + "\n";
}

void print_progress(const std::string& text) {
  std::cerr << without_commands(text) << std::flush;
}

void print_shown(const std::string& text) {
  *text_stream << without_commands(text) << std::flush;
}

void print_text_to_stderr() {
  text_stream = &std::cerr;
}

bool text_is_on_stderr() {
  return text_stream == &std::cerr;
}

void print_for_programs(const std::string& text) {
  std::cout << text << std::flush;
}

void print_help_to_stderr(const std::string& help) {
  std::cerr << fitted_to(STDERR_FILENO, help, 0);
}

}  // namespace lockstep::cli
