// The only reader for files that another program may have written: case files, runs, archives. Only
// regular files of a bounded size are read, so that no file can block the program or exhaust its
// memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace lockstep {

inline constexpr int64_t kFileBytesMost = 64 << 20;

// The bytes of a regular file of at most `kFileBytesMost`; links are followed. A folder, a pipe, a
// device or a socket is refused before it is opened. Throws FieldError, whose text starts with
// `path` and says why it cannot be read.
std::string read_file(const std::filesystem::path& path);

}  // namespace lockstep
