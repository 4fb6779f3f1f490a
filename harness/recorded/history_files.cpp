#include "harness/recorded/history_files.h"

#include "harness/base/case.h"
#include "harness/base/characters.h"
#include "harness/base/text.h"

#include <optional>

namespace lockstep::recorded {

namespace {

namespace fs = std::filesystem;

constexpr size_t kEntriesMost = 10'000;  // of a folder

// The number of a rank in the name of its file; none for another file.
std::optional<int> rank_in(const std::string& name) {
  const std::string before = "rank", behind = ".history";
  if (!name.starts_with(before) || !name.ends_with(behind)) return {};
  if (name.size() <= before.size() + behind.size()) return {};
  const auto digits = name.substr(before.size(), name.size() - before.size() - behind.size());
  const auto number = parsed_int(digits);
  if (!number || *number < 0 || *number >= kWorldMost || std::to_string(*number) != digits)
    return {};
  return static_cast<int>(*number);
}

int64_t size_of(const fs::path& file) {
  std::error_code error;
  if (fs::is_symlink(fs::symlink_status(file, error)))
    refuse(one_line(file.string()), "is a link; expected a regular file");
  const auto size = fs::file_size(file, error);
  return error ? 0 : static_cast<int64_t>(size);
}

}  // namespace

[[noreturn]] void refuse(const std::string& where, const std::string& why) {
  throw FieldError(where + ": " + why);
}

std::map<int, fs::path> history_files(const fs::path& folder) {
  const auto where = one_line(folder.string());
  std::error_code error;
  if (!fs::is_directory(folder, error)) refuse(where, "is no folder of recorded histories");
  std::map<int, fs::path> files;
  size_t entries = 0;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    if (++entries > kEntriesMost)
      refuse(where, "holds more than " + with_commas(kEntriesMost) + " files");
    if (const auto rank = rank_in(entry->path().filename().string())) files[*rank] = entry->path();
  }
  if (error) refuse(where, "cannot be read: " + error.message());
  if (files.empty()) refuse(where, "holds no rank0.history: nothing was recorded here");
  int64_t bytes = 0;
  for (const auto& [rank, file] : files) bytes += size_of(file);
  if (bytes > kRunBytesMost)
    refuse(where, "its histories have " + with_commas(bytes) + " bytes; at most " +
                      with_commas(kRunBytesMost) + " are read");
  return files;
}

}  // namespace lockstep::recorded
