#include "cli/output/github.h"

#include "cli/machine.h"
#include "cli/print.h"
#include "harness/base/text.h"
#include "reports/github.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>
#include <random>
#include <utility>

namespace lockstep::cli {

namespace {

// The text that the step's summary already holds counts too.
size_t bytes_left(const std::filesystem::path& file) {
  std::error_code error;
  const auto size = std::filesystem::file_size(file, error);
  const auto used = error ? 0 : static_cast<size_t>(size);
  return used < reports::kSummaryBytesMost ? reports::kSummaryBytesMost - used : 0;
}

std::string new_token() {
  std::random_device bits;  // the kernel's
  std::string token;
  for (int word = 0; word < 4; ++word) {
    char text[9];
    std::snprintf(text, sizeof(text), "%08x", bits());
    token += text;
  }
  return token;
}

std::string stopped_by;  // the token that resumes commands; empty while they are active

}  // namespace

bool on_github() {
  const auto value = variable("GITHUB_ACTIONS");
  return !value.empty() && value != "false";
}

std::string without_commands(std::string text) {
  if (!on_github()) return text;
  for (size_t at = 0; (at = text.find("##[", at)) != std::string::npos;)
    text.replace(at, 3, "##\\x5b");
  const auto is_graphic = [](char byte) { return byte > ' ' && byte < 0x7f; };
  auto lines = split(text, '\n');
  for (auto& line : lines) {
    const auto begin = std::find_if(line.begin(), line.end(), is_graphic);
    if (std::string_view(begin, line.end()).starts_with("::"))
      line.replace(begin, begin + 2, "\\x3a\\x3a");
  }
  return joined(lines, "\n");
}

void stop_commands() {
  if (!on_github() || text_is_on_stderr() || !stopped_by.empty()) return;
  stopped_by = new_token();
  std::cout << "::stop-commands::" + stopped_by + "\n" << std::flush;
}

void resume_commands() {
  if (stopped_by.empty()) return;
  std::cout << "::" + std::exchange(stopped_by, "") + "::\n" << std::flush;
}

void write_for_github(const Run& run) {
  resume_commands();
  if (!text_is_on_stderr()) std::cout << reports::annotations(run) << std::flush;
  const std::filesystem::path file = variable("GITHUB_STEP_SUMMARY");
  if (file.empty()) return;
  errno = 0;
  std::ofstream out(file, std::ios::binary | std::ios::app);
  if (!(out << reports::step_summary(run, bytes_left(file)) << std::flush))
    print_to_stderr("GITHUB_STEP_SUMMARY names " + file.string() +
                    ", which cannot be written: " + std::strerror(errno));
}

}  // namespace lockstep::cli
