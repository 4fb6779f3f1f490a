#include "cli/machine.h"

#include "cli/usage.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

namespace lockstep::cli {

namespace {

namespace fs = std::filesystem;

int64_t free_bytes(const fs::path& path) {
  std::error_code error;
  const auto space = fs::space(path, error);
  return error ? 0 : static_cast<int64_t>(space.available);
}

std::optional<int64_t> limit(__rlimit_resource which) {
  struct rlimit value {};
  if (::getrlimit(which, &value) != 0 || value.rlim_cur == RLIM_INFINITY) return {};
  return static_cast<int64_t>(value.rlim_cur);
}

// The bytes after `name` in /proc/meminfo, which counts kibibytes.
int64_t memory(const std::string& name) {
  std::ifstream in("/proc/meminfo");
  std::string word;
  int64_t kibibytes = 0;
  while (in >> word)
    if (word == name + ":" && in >> kibibytes) return kibibytes << 10;
  return 0;
}

std::string processor() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("model name"))
      return line.substr(std::min(line.find(':') + 2, line.size()));
  return "unknown";
}

std::string system_name() {
  struct utsname name {};
  if (::uname(&name) != 0) return "unknown";
  return std::string(name.sysname) + " " + name.release + " " + name.machine;
}

// Read from the driver's folders, so that no GPU library is loaded.
std::string gpus() {
  std::error_code error;
  int count = 0;
  for (fs::directory_iterator at("/proc/driver/nvidia/gpus", error), end; !error && at != end;
       at.increment(error))
    ++count;
  if (count > 0) return std::to_string(count) + " (NVIDIA)";
  return fs::exists("/dev/kfd") || fs::exists("/dev/nvidiactl") ? "unknown" : "none";
}

// cpu.max holds "quota period" in microseconds, or "max".
int cores_of_control_group() {
  std::ifstream in("/sys/fs/cgroup/cpu.max");
  double quota = 0, period = 0;
  if (!(in >> quota >> period) || quota <= 0 || period <= 0) return 0;
  return std::max(1, static_cast<int>(quota / period));
}

}  // namespace

int core_count() {
  cpu_set_t set;
  const int allowed = ::sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
  const int limited = cores_of_control_group();
  return limited > 0 ? std::min(allowed, limited) : allowed;
}

Machine this_machine() {
  std::error_code error;
  Machine machine{.cores = core_count(),
                  .memory_bytes = memory("MemTotal"),
                  .memory_free_bytes = memory("MemAvailable"),
                  .files_most = limit(RLIMIT_NOFILE),
                  .processes_most = limit(RLIMIT_NPROC),
                  .shared_memory_free_bytes = free_bytes("/dev/shm"),
                  .temporary = fs::temp_directory_path(error)};
  machine.temporary_free_bytes = free_bytes(machine.temporary);
  machine.here_free_bytes = free_bytes(".");
  machine.gpus = gpus();
  machine.system = system_name();
  machine.processor = processor();
  return machine;
}

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value ? value : "";
}

fs::path temporary_folder() {
  std::error_code error;
  const auto folder = fs::temp_directory_path(error);
  if (!error) return folder;
  const char* named = std::getenv("TMPDIR");
  throw UsageError("no temporary folder: " + (named ? "TMPDIR is " + std::string(named) : "/tmp") +
                   ": " + error.message() + "; set TMPDIR to a folder that is there");
}

bool locale_is_utf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    std::string text = variable(name);
    if (text.empty()) continue;
    for (auto& letter : text) letter = static_cast<char>(std::toupper(letter));
    return text.find("UTF-8") != std::string::npos || text.find("UTF8") != std::string::npos;
  }
  return false;
}

bool is_terminal(int descriptor) {
  const char* term = std::getenv("TERM");
  return ::isatty(descriptor) && term && std::string(term) != "dumb";
}

int terminal_columns(int descriptor) {
  struct winsize size {};
  return ::ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

size_t columns_if_terminal(int descriptor) {
  return is_terminal(descriptor) ? static_cast<size_t>(terminal_columns(descriptor)) : 0;
}

}  // namespace lockstep::cli
