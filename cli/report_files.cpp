// Writes the report files that a user requested.
#include "cli/play.h"
#include "cli/usage.h"

#include <cerrno>
#include <cstring>
#include <fstream>

namespace lockstep::cli {

namespace {

[[noreturn]] void cannot_write(const std::filesystem::path& path) {
  throw UsageError(path.string() + ": cannot be written: " + std::strerror(errno));
}

}  // namespace

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
