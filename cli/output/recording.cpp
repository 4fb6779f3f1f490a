#include "cli/output/recording.h"

#include "cli/usage.h"
#include "harness/process/start_program.h"

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <fstream>

namespace lockstep::cli {

namespace {

// The file that this code was loaded from: the program, or the library that a Python has loaded.
std::filesystem::path file_of_this_code() {
  const auto here = reinterpret_cast<uintptr_t>(&file_of_this_code);
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    uintptr_t begin = 0, end = 0;
    const auto path = line.find('/');
    if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR, &begin, &end) == 2 && begin <= here &&
        here < end && path != std::string::npos)
      return line.substr(path);
  }
  return {};
}

// In the package for Python it is beside the folder `lockstep`, and in a tree where the tree has
// it.
std::filesystem::path folder_of_autostart() {
  std::error_code none;
  const auto packages = file_of_this_code().parent_path().parent_path().parent_path();
  const auto packaged = packages / "lockstep_autostart";
  if (std::filesystem::exists(packaged, none)) return packaged;
  return packages.parent_path() / "recorder" / "python" / "lockstep_autostart";
}

// Where the recorders write what they record into a folder: a moved run has its own below it.
std::filesystem::path folder_of_histories(const std::filesystem::path& folder) {
  const char* number = std::getenv("LOCKSTEP_RECORD_PERTURB");
  const bool is_moved = number && std::strtoull(number, nullptr, 10) > 0;
  return is_moved ? folder / ("perturbed-" + std::string(number)) : folder;
}

}  // namespace

bool has_histories(const std::filesystem::path& folder) {
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(folder, none))
    if (entry.path().extension() == ".history") return true;
  return false;
}

std::filesystem::path folder_of_record(const std::string& flag, const std::string& folder) {
  if (folder.empty()) return {};
  if (folder.front() == '-')
    throw UsageError(flag + " takes a folder, and '" + folder + "' is an option; ./" + folder +
                     " is a folder of that name");
  std::error_code error;
  if (std::filesystem::exists(folder, error) && !std::filesystem::is_directory(folder, error))
    throw UsageError(flag + " " + folder + ": is no folder");
  if (const auto histories = folder_of_histories(folder); has_histories(histories))
    throw UsageError(flag + " " + histories.string() +
                     ": holds a recorded run already; name a new folder, or remove this one");
  return std::filesystem::absolute(folder);
}

void have_python_record() {
  put_first("PYTHONPATH", folder_of_autostart());
}

}  // namespace lockstep::cli
