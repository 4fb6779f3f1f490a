#include "cli/github.h"

#include "reports/github.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>

namespace lockstep::cli {

namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

// What the step wrote into its summary before counts too.
size_t bytes_left(const std::filesystem::path& file) {
  std::error_code error;
  const auto size = std::filesystem::file_size(file, error);
  const auto used = error ? 0 : static_cast<size_t>(size);
  return used < reports::kSummaryBytesMost ? reports::kSummaryBytesMost - used : 0;
}

}  // namespace

bool on_github() {
  const auto value = environment("GITHUB_ACTIONS");
  return !value.empty() && value != "false";
}

void tell_github(const Run& run) {
  std::cout << reports::annotations(run) << std::flush;
  const std::filesystem::path file = environment("GITHUB_STEP_SUMMARY");
  if (file.empty()) return;
  errno = 0;
  std::ofstream out(file, std::ios::binary | std::ios::app);
  if (!(out << reports::step_summary(run, bytes_left(file)) << std::flush))
    std::cerr << "lockstep: GITHUB_STEP_SUMMARY names " << file.string()
              << ", which cannot be written: " << std::strerror(errno) << "\n";
}

}  // namespace lockstep::cli
