#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

namespace lockstep {

// The records of a zip archive as torch.save writes them, uncompressed. Whatever bytes a file has,
// its records take at most its size together. Everything is Local, and throws std::runtime_error
// with what is wrong with the file.
class StoredRecords {
 public:
  // Opens a regular file: a pipe or a device may block, or have no end.
  explicit StoredRecords(const std::string& path);
  ~StoredRecords();
  StoredRecords(const StoredRecords&) = delete;
  StoredRecords& operator=(const StoredRecords&) = delete;

  // By the name within the archive's folder: "data.pkl".
  bool has(const std::string& name) const { return records_.count(name) > 0; }
  std::size_t size(const std::string& name) const { return record(name).size; }

  // Writes the record's size() bytes to `to`.
  void read(const std::string& name, void* to) const;
  std::string text(const std::string& name) const;

 private:
  struct Record {
    std::uint64_t header_at = 0, size = 0;
    bool is_stored = false;
  };

  struct Directory {
    std::uint64_t at = 0, size = 0, count = 0;
  };

  void open(const std::string& path);
  Directory find_directory() const;
  void read_directory();
  const Record& record(const std::string& name) const;
  std::string bytes(std::uint64_t at, std::uint64_t size) const;
  void read_at(std::uint64_t at, void* to, std::uint64_t size) const;

  int descriptor_ = -1;
  std::uint64_t size_ = 0;
  std::map<std::string, Record> records_;
};

}  // namespace lockstep
