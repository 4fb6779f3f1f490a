// Writes the report files that a user requested, and chooses the style of text.
#include "cli/machine.h"
#include "cli/play.h"
#include "cli/usage.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <unistd.h>

namespace lockstep::cli {

namespace {

[[noreturn]] void cannot_write(const std::filesystem::path& path) {
  throw UsageError(path.string() + ": cannot be written: " + std::strerror(errno));
}

bool wants_colour(const std::string& colour) {
  if (colour != "auto") return colour == "always";
  const char* no_colour = std::getenv("NO_COLOR");
  return is_terminal(STDOUT_FILENO) && !(no_colour && *no_colour);
}

}  // namespace

reports::Style style_of_stdout(const std::string& colour) {
  return {.colour = wants_colour(colour),
          .unicode = locale_is_utf8(),
          .columns = columns_if_terminal(STDOUT_FILENO)};
}

void check_writable(const std::filesystem::path& path) {
  errno = 0;
  if (!path.empty() && !std::ofstream(path, std::ios::app)) cannot_write(path);
}

void write_report(const std::filesystem::path& path, const std::string& text) {
  if (path.empty()) return;
  errno = 0;
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  if (!(out << text << std::flush)) cannot_write(path);
}

}  // namespace lockstep::cli
