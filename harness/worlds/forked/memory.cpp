#include "harness/worlds/forked/memory.h"

#include "harness/rank/journal.h"
#include "harness/worlds/gloo/shared_memory_store.h"

#include <algorithm>

namespace lockstep {

namespace {

constexpr size_t kPage = 4096;

std::span<std::byte> take(std::span<std::byte>& rest, size_t bytes) {
  const auto taken = rest.first(bytes);
  rest = rest.subspan(bytes);
  return taken;
}

size_t whole_pages(size_t bytes) {
  return (bytes + kPage - 1) / kPage * kPage;
}

size_t crashes_bytes(const ForkedOptions& options) {
  return whole_pages(static_cast<size_t>(options.ranks_most) * sizeof(StackBoard::Slot));
}

size_t region_bytes(const ForkedOptions& options) {
  return kPage + whole_pages(sizeof(StackBoard)) + crashes_bytes(options) +
         whole_pages(options.store_bytes) +
         static_cast<size_t>(options.ranks_most) * whole_pages(options.journal_bytes);
}

}  // namespace

LaneMemory::LaneMemory(const ForkedOptions& options)
    : region(region_bytes(options)),
      exit_barrier(*reinterpret_cast<ExitBarrier*>(region.bytes().data())),
      running(*reinterpret_cast<std::atomic<int>*>(region.bytes().data() + sizeof(ExitBarrier))),
      stacks(*reinterpret_cast<StackBoard*>(region.bytes().data() + kPage)),
      journal_bytes_(whole_pages(options.journal_bytes)) {
  journals_ = region.bytes().subspan(kPage + whole_pages(sizeof(StackBoard)));
  crashes = {reinterpret_cast<StackBoard::Slot*>(take(journals_, crashes_bytes(options)).data()),
             static_cast<size_t>(options.ranks_most)};
  store = take(journals_, whole_pages(options.store_bytes));
}

std::span<std::byte> LaneMemory::journal(int rank, int size) const {
  const size_t fair = journals_.size() / static_cast<size_t>(size) / kPage * kPage;
  const size_t bytes = std::min(journal_bytes_, fair);
  return journals_.subspan(static_cast<size_t>(rank) * bytes, bytes);
}

void LaneMemory::clear(int size) const {
  exit_barrier.returned.store(0);
  running.store(-1);
  SharedMemoryStore::reset(store);
  for (auto& crash : crashes) lockstep::clear(crash);
  for (int rank = 0; rank < size; ++rank) JournalView(journal(rank, size)).clear();
}

}  // namespace lockstep
