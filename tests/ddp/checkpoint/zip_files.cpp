#include "tests/ddp/checkpoint/zip_files.h"

namespace lockstep::testing {

namespace {

void put(std::string& to, std::uint64_t number, int bytes) {
  for (; bytes > 0; --bytes, number >>= 8) to += static_cast<char>(number);
}

// What a record's header and its entry have in common, from the version on.
void put_about(std::string& to, const ZipRecord& record) {
  const std::uint64_t size = record.bytes.size(),
                      says = record.says_size < 0 ? size : std::uint64_t(record.says_size);
  put(to, 0, 2);
  put(to, 0, 2);
  put(to, record.method, 2);
  put(to, 0, 8);  // time, date and checksum
  put(to, record.method == 0 ? says : size, 4);
  put(to, says, 4);
  put(to, record.name.size() + 8, 2);
  put(to, 0, 2);
}

}  // namespace

std::string zip_of(const std::vector<ZipRecord>& records) {
  std::string file, directory;
  for (const ZipRecord& record : records) {
    const std::uint64_t at = record.says_at < 0 ? file.size() : std::uint64_t(record.says_at);
    put(file, 0x04034b50, 4);
    put_about(file, record);
    file += "archive/" + record.name + record.bytes;
    put(directory, 0x02014b50, 4);
    put(directory, 0, 2);
    put_about(directory, record);
    put(directory, 0, 10);  // comment, disk and attributes
    put(directory, at, 4);
    directory += "archive/" + record.name;
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
