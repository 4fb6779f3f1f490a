// The format: https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT, of which torch.save
// needs the records, the central directory behind them, and its end, for files above 4 GB too.
#include "train/checkpoint/stored_records.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <stdexcept>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>

namespace lockstep {

namespace {

constexpr std::uint32_t kRecord = 0x04034b50, kEntry = 0x02014b50, kEnd = 0x06054b50,
                        kEnd64 = 0x06064b50, kPlaceOfEnd64 = 0x07064b50;
constexpr std::uint64_t kRecordBytes = 30, kEntryBytes = 46, kEndBytes = 22, kEnd64Bytes = 56,
                        kPlaceOfEnd64Bytes = 20, kCommentBytesMost = 65535;
constexpr std::uint32_t kInExtra = 0xffffffff;  // a number that needs 64 bits
constexpr std::uint16_t kExtra64 = 1;           // the field that has it

[[noreturn]] void refuse_as_torn(const std::string& why) {
  throw std::runtime_error("it is torn or damaged (" + why + ")");
}

// Little-endian, as the machines are for which LibTorch is built.
template <class Number>
Number number_at(std::string_view bytes, std::size_t at) {
  Number number{};
  if (at > bytes.size() || sizeof number > bytes.size() - at)
    refuse_as_torn("an entry of its directory is cut");
  std::memcpy(&number, bytes.data() + at, sizeof number);
  return number;
}

std::string_view part(std::string_view bytes, std::size_t at, std::size_t size) {
  if (at > bytes.size() || size > bytes.size() - at)
    refuse_as_torn("an entry of its directory is cut");
  return bytes.substr(at, size);
}

// The fields that are too large for 32 bits, in the order in which they come.
class Extra64 {
 public:
  explicit Extra64(std::string_view extra) {
    while (extra.size() >= 4) {
      const std::size_t size = number_at<std::uint16_t>(extra, 2);
      const auto field = part(extra, 4, size);
      if (number_at<std::uint16_t>(extra, 0) == kExtra64) numbers_ = field;
      extra.remove_prefix(4 + size);
    }
  }

  std::uint64_t whole(std::uint32_t number) {
    if (number != kInExtra) return number;
    const auto large = number_at<std::uint64_t>(numbers_, 0);
    numbers_.remove_prefix(sizeof large);
    return large;
  }

 private:
  std::string_view numbers_;
};

}  // namespace

StoredRecords::StoredRecords(const std::string& path) {
  open(path);
  try {
    if (size_ < 2 || bytes(0, 2) != "PK")
      throw std::runtime_error(
          "it is no file of torch.save or save_checkpoint, which are zip archives");
    read_directory();
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

StoredRecords::~StoredRecords() {
  ::close(descriptor_);
}

void StoredRecords::open(const std::string& path) {
  descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  if (descriptor_ < 0) throw std::runtime_error(std::strerror(errno));
  struct stat status {};
  if (::fstat(descriptor_, &status) == 0 && S_ISREG(status.st_mode)) {
    size_ = static_cast<std::uint64_t>(status.st_size);
    return;
  }
  ::close(descriptor_);
  throw std::runtime_error("it is no regular file");
}

void StoredRecords::read_at(std::uint64_t at, void* to, std::uint64_t size) const {
  if (at > size_ || size > size_ - at) refuse_as_torn("it ends within what it refers to");
  auto* bytes = static_cast<char*>(to);
  while (size > 0) {
    const ssize_t got = ::pread(descriptor_, bytes, size, static_cast<off_t>(at));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw std::runtime_error(std::strerror(errno));
    if (got == 0) refuse_as_torn("it became shorter while it was read");
    bytes += got;
    at += static_cast<std::uint64_t>(got);
    size -= static_cast<std::uint64_t>(got);
  }
}

std::string StoredRecords::bytes(std::uint64_t at, std::uint64_t size) const {
  if (size > size_) refuse_as_torn("it ends within what it refers to");
  std::string bytes(size, '\0');
  read_at(at, bytes.data(), size);
  return bytes;
}

// Its end is the last thing of the file, but for a comment.
StoredRecords::Directory StoredRecords::find_directory() const {
  const std::uint64_t size = std::min(size_, kEndBytes + kCommentBytesMost);
  const std::string tail = bytes(size_ - size, size);
  const std::string mark("PK\5\6", 4);
  if (tail.size() < kEndBytes) refuse_as_torn("it is too short");
  const std::size_t found = tail.rfind(mark, tail.size() - kEndBytes);
  if (found == std::string::npos) refuse_as_torn("the end of its directory is missing");
  const std::uint64_t end_at = size_ - size + found;
  const auto end = part(tail, found, kEndBytes);
  const Directory directory{.at = number_at<std::uint32_t>(end, 16),
                            .size = number_at<std::uint32_t>(end, 12),
                            .count = number_at<std::uint16_t>(end, 10)};
  if (end_at < kPlaceOfEnd64Bytes) return directory;
  const std::string place = bytes(end_at - kPlaceOfEnd64Bytes, kPlaceOfEnd64Bytes);
  if (number_at<std::uint32_t>(place, 0) != kPlaceOfEnd64) return directory;
  const std::string end64 = bytes(number_at<std::uint64_t>(place, 8), kEnd64Bytes);
  if (number_at<std::uint32_t>(end64, 0) != kEnd64)
    refuse_as_torn("the end of its directory is not where it says");
  return {.at = number_at<std::uint64_t>(end64, 48),
          .size = number_at<std::uint64_t>(end64, 40),
          .count = number_at<std::uint64_t>(end64, 32)};
}

void StoredRecords::read_directory() {
  const Directory directory = find_directory();
  const std::string entries = bytes(directory.at, directory.size);
  std::string_view left = entries;
  std::uint64_t all = 0;
  std::string folder;
  for (std::uint64_t number = 0; number < directory.count; ++number) {
    if (number_at<std::uint32_t>(left, 0) != kEntry) refuse_as_torn("its directory has no entry");
    const auto flags = number_at<std::uint16_t>(left, 8),
               method = number_at<std::uint16_t>(left, 10);
    const std::size_t name_size = number_at<std::uint16_t>(left, 28),
                      extra_size = number_at<std::uint16_t>(left, 30),
                      comment_size = number_at<std::uint16_t>(left, 32);
    std::string name(part(left, kEntryBytes, name_size));
    Extra64 extra(part(left, kEntryBytes + name_size, extra_size));
    const auto size = extra.whole(number_at<std::uint32_t>(left, 24)),
               packed_size = extra.whole(number_at<std::uint32_t>(left, 20)),
               header_at = extra.whole(number_at<std::uint32_t>(left, 42));
    part(left, kEntryBytes + name_size + extra_size, comment_size);
    left.remove_prefix(kEntryBytes + name_size + extra_size + comment_size);
    if (packed_size > size_ - all) refuse_as_torn("its records overlap");
    all += packed_size;
    if (number == 0) folder = name.substr(0, name.find('/') + 1);
    if (folder.empty() || !name.starts_with(folder)) refuse_as_torn("a record is in no folder");
    const bool is_stored = method == 0 && (flags & 1) == 0 && packed_size == size;
    if (!records_.emplace(name.substr(folder.size()), Record{header_at, size, is_stored}).second)
      refuse_as_torn("it has a record twice");
  }
}

const StoredRecords::Record& StoredRecords::record(const std::string& name) const {
  const auto found = records_.find(name);
  if (found == records_.end()) throw std::runtime_error("its record " + name + " is missing");
  if (!found->second.is_stored)
    throw std::runtime_error("its record " + name +
                             " is compressed or encrypted, which torch.save never does");
  return found->second;
}

void StoredRecords::read(const std::string& name, void* to) const {
  const Record& is = record(name);
  const std::string header = bytes(is.header_at, kRecordBytes);
  if (number_at<std::uint32_t>(header, 0) != kRecord)
    refuse_as_torn("a record is not where its directory says");
  const std::uint64_t before =
      kRecordBytes + number_at<std::uint16_t>(header, 26) + number_at<std::uint16_t>(header, 28);
  read_at(is.header_at + before, to, is.size);
}

std::string StoredRecords::text(const std::string& name) const {
  std::string text(size(name), '\0');
  read(name, text.data());
  return text;
}

}  // namespace lockstep
