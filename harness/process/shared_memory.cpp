#include "harness/process/shared_memory.h"

#include "harness/base/tier_errors.h"
#include "harness/process/descriptor.h"
#include "harness/process/system_limit.h"

#include <cerrno>
#include <sys/mman.h>
#include <unistd.h>

namespace lockstep {

SharedMemory::SharedMemory(size_t bytes) : size_(bytes) {
  void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED)
    throw TierError("no room for " + std::to_string(bytes) +
                    " bytes of shared memory: " + reason_of(errno));
  begin_ = static_cast<std::byte*>(at);
}

SharedMemory::~SharedMemory() {
  munmap(begin_, size_);
}

void SharedMemory::release(std::span<std::byte> part) const {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const auto from = static_cast<size_t>(part.data() - begin_);
  const size_t first = (from + page - 1) / page * page;
  const size_t last = (from + part.size()) / page * page;
  if (last <= first || last - first <= kWorthReleasing) return;
  checked(madvise(begin_ + first, last - first, MADV_REMOVE), "giving shared memory back");
}

}  // namespace lockstep
