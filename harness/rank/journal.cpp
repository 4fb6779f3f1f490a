#include "harness/rank/journal.h"

#include "harness/base/tier_errors.h"

#include <algorithm>
#include <fstream>

namespace lockstep {

namespace {

// std::atomic on plain shared memory: lock-free and without an address of its own.
static_assert(std::atomic<uint64_t>::is_always_lock_free);

JournalHead& head_of(std::span<std::byte> memory) {
  if (memory.size() < sizeof(JournalHead) ||
      reinterpret_cast<uintptr_t>(memory.data()) % alignof(JournalHead) != 0)
    throw TierError("a journal needs aligned memory of at least " +
                    std::to_string(sizeof(JournalHead)) + " bytes, not " +
                    std::to_string(memory.size()));
  return *reinterpret_cast<JournalHead*>(memory.data());
}

}  // namespace

JournalWriter::JournalWriter(std::span<std::byte> memory)
    : head_(head_of(memory)), records_(memory.subspan(sizeof(JournalHead))) {
  JournalView(memory).clear();
}

void JournalWriter::append_text(FrameKind kind, std::string_view header,
                                std::span<const std::byte> payload) {
  const size_t size = framed_size(header.size(), payload.size());
  const std::lock_guard lock(mutex_);
  if (finished_) return;
  const uint64_t begin = head_.committed.load(std::memory_order_relaxed);
  if (head_.overflowed.load(std::memory_order_relaxed) != 0 || size > records_.size() - begin) {
    head_.overflowed.store(1, std::memory_order_release);
    throw JournalFull("the journal is full: " + std::to_string(begin) + " of " +
                      std::to_string(records_.size()) + " bytes are used, and a record needs " +
                      std::to_string(size));
  }
  std::byte* commit =
      write_frame(records_.data() + begin, kind, header, payload.data(), payload.size());
  std::atomic_ref(*reinterpret_cast<uint64_t*>(commit))
      .store(kCommit ^ count_, std::memory_order_release);
  ++count_;
  head_.committed.store(begin + size, std::memory_order_release);
}

void JournalWriter::finish(const Ending& ending) {
  append_text(FrameKind::ending, header_of(ending));
  const std::lock_guard lock(mutex_);
  finished_ = true;
}

JournalView::JournalView(std::span<std::byte> memory)
    : head_(head_of(memory)), records_(memory.subspan(sizeof(JournalHead))) {}

std::span<std::byte> JournalView::bytes() const {
  const uint64_t committed = head_.committed.load(std::memory_order_acquire);
  return records_.first(std::min<uint64_t>(committed, records_.size()));
}

Frames JournalView::frames() const {
  const auto whole = bytes();
  return read_frames(whole.data(), whole.size());
}

void JournalView::save(const std::filesystem::path& file) const {
  const auto whole = bytes();
  std::ofstream out(file, std::ios::binary | std::ios::trunc);
  out.write(reinterpret_cast<const char*>(whole.data()),
            static_cast<std::streamsize>(whole.size()));
  if (!out.flush()) throw TierError(file.string() + ": cannot be written");
}

void JournalView::clear() {
  head_.committed.store(0, std::memory_order_relaxed);
  head_.overflowed.store(0, std::memory_order_release);
}

}  // namespace lockstep
