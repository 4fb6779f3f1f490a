#include "tests/train/checkpoint/zip_files.h"

namespace lockstep::testing {

std::string little_endian(std::uint64_t number, int bytes) {
  std::string text;
  for (; bytes > 0; --bytes, number >>= 8) text += static_cast<char>(number);
  return text;
}

namespace {

void put(std::string& to, std::uint64_t number, int bytes) {
  to += little_endian(number, bytes);
}

std::uint64_t size_of(const ZipRecord& record) {
  return record.says_size < 0 ? record.bytes.size() : std::uint64_t(record.says_size);
}

// Writes the part that a record's header and its entry have in common, from the version on.
void put_about(std::string& to, const ZipRecord& record, bool in_extra) {
  constexpr std::uint32_t kInExtra = 0xffffffff;
  put(to, 0, 4);  // version and flags
  put(to, record.method, 2);
  put(to, 0, 8);  // time, date and checksum
  put(to, in_extra ? kInExtra : record.method == 0 ? size_of(record) : record.bytes.size(), 4);
  put(to, in_extra ? kInExtra : size_of(record), 4);
  put(to, record.name.size() + 8, 2);
  put(to, in_extra ? 28 : 0, 2);
}

}  // namespace

std::string zip_of(const std::vector<ZipRecord>& records) {
  std::string file, directory;
  for (const ZipRecord& record : records) {
    const std::uint64_t at = record.says_at < 0 ? file.size() : std::uint64_t(record.says_at);
    put(file, 0x04034b50, 4);
    put_about(file, record, /*in_extra=*/false);
    file += "archive/" + record.name + record.bytes;
    put(directory, 0x02014b50, 4);
    put(directory, 0, 2);
    put_about(directory, record, record.is_large);
    put(directory, 0, 10);  // comment, disk and attributes
    put(directory, record.is_large ? 0xffffffff : at, 4);
    directory += "archive/" + record.name;
    if (!record.is_large) continue;
    put(directory, 1 | 24 << 16, 4);
    for (const std::uint64_t number : {size_of(record), size_of(record), at})
      put(directory, number, 8);
  }
  const std::uint64_t at = file.size();
  file += directory;
  put(file, 0x06054b50, 4);
  put(file, 0, 4);
  put(file, records.size(), 2);
  put(file, records.size(), 2);
  put(file, directory.size(), 4);
  put(file, at, 4);
  put(file, 0, 2);
  return file;
}

}  // namespace lockstep::testing
