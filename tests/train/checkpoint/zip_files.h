#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::testing {

// The last `bytes` bytes of a number, the lowest first.
std::string little_endian(std::uint64_t number, int bytes);

// A record as it stands in a zip archive; what its directory says of it may be a lie.
struct ZipRecord {
  std::string name, bytes;
  std::uint16_t method = 0;  // 8: deflated
  std::int64_t says_size = -1;
  std::int64_t says_at = -1;  // where its header is
  bool is_large = false;      // its numbers are those of a record above 4 GB, of 64 bits
};

// The records in the folder "archive", their directory, and its end.
std::string zip_of(const std::vector<ZipRecord>& records);

}  // namespace lockstep::testing
