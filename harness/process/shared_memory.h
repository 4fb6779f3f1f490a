// Memory shared by a process and all its forks. It has no name and no file: it is freed with the
// last process that holds it, however that process ends.
//
// A region is address space until it is written to, so it can be reserved for the worst case.
#pragma once

#include <cstddef>
#include <span>

namespace lockstep {

class SharedMemory {
 public:
  // Zero bytes. Throws TierError if the address space cannot be reserved.
  explicit SharedMemory(size_t bytes);
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  std::span<std::byte> bytes() const { return {begin_, size_}; }
  size_t size() const { return size_; }

  // Returns the pages wholly inside `part` to the system if there are more than kWorthReleasing of
  // them; they read as zero again, in every process. Fewer are quicker to overwrite. `part` must
  // lie in this region, and nobody may be using it.
  void release(std::span<std::byte> part) const;
  static constexpr size_t kWorthReleasing = size_t{1} << 20;

 private:
  std::byte* begin_;
  size_t size_;
};

}  // namespace lockstep
