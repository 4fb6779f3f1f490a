// What this machine gives a run: asked of the system each time, never cached.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace lockstep::cli {

// Processors this process may use: its affinity, or less where a control group limits it.
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

// True where the environment says that text is UTF-8.
bool locale_is_utf8();

// True for a terminal that understands escapes.
bool is_terminal(int descriptor);
int terminal_columns(int descriptor);  // 80 where unknown

}  // namespace lockstep::cli
