// The files of a folder that holds one history for each rank: rank0.history, rank1.history, ...
// They may come from a stranger.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

namespace lockstep::recorded {

inline constexpr int64_t kRunBytesMost = int64_t{512} << 20;  // of all files together

// By rank, at least one. Looks at no other names and follows no link. Throws FieldError, whose text
// starts with the folder or the file, where nothing was recorded and where it is too much to read.
std::map<int, std::filesystem::path> history_files(const std::filesystem::path& folder);

// Throws FieldError: "WHERE: WHY". For files that no recorder wrote.
[[noreturn]] void refuse(const std::string& where, const std::string& why);

}  // namespace lockstep::recorded
