// This machine's resources and terminal: queried each time, never cached.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace lockstep::cli {

// Processors this process may use: its affinity, or fewer where a control group limits it.
int core_count();

struct Machine {
  int cores = 1;
  int64_t memory_bytes = 0, memory_free_bytes = 0;
  std::optional<int64_t> files_most, processes_most;  // none: unlimited
  int64_t shared_memory_free_bytes = 0;               // /dev/shm; 0 where there is none
  std::filesystem::path temporary;
  int64_t temporary_free_bytes = 0, here_free_bytes = 0;
  std::string gpus;  // "none", "2 (NVIDIA)", "unknown"
  std::string system, processor;
};
Machine this_machine();

// The value of an environment variable; empty where it is not set.
std::string variable(const char* name);

// Where temporary files go. Throws UsageError where TMPDIR, or /tmp, is not an existing folder.
std::filesystem::path temporary_folder();

// True where the locale's text is UTF-8.
bool locale_is_utf8();

// True for a terminal that understands escapes.
bool is_terminal(int descriptor);
int terminal_columns(int descriptor);        // 80 where unknown
size_t columns_if_terminal(int descriptor);  // 0 where it is not a terminal

}  // namespace lockstep::cli
