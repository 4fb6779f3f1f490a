// Records of a rank: frames (history/frames.h) in memory shared with the runner.
//
// A record counts once it is whole: its commit word is stored last, then the journal's count of
// committed bytes. So a writer killed at any instant leaves every record it finished, and nothing
// of an unfinished one. One writer and one process at a time; any thread of it; readers in any
// process, at any time.
#pragma once

#include "harness/rank/record_writer.h"

#include <atomic>
#include <filesystem>
#include <mutex>
#include <stdexcept>

namespace lockstep {

// A record did not fit. The journal remembers it (JournalView::overflowed), even if this is caught.
struct JournalFull : std::runtime_error {
  using runtime_error::runtime_error;
};

// The first bytes of a journal's memory; all zero means an empty journal.
struct JournalHead {
  std::atomic<uint64_t> committed;   // bytes of whole records
  std::atomic<uint64_t> overflowed;  // 1 once a record did not fit
};

class JournalWriter final : public RecordWriter {
 public:
  // Starts an empty journal in `memory`, which is aligned to 8 bytes and holds at least a head.
  explicit JournalWriter(std::span<std::byte> memory);
  JournalWriter(const JournalWriter&) = delete;
  JournalWriter& operator=(const JournalWriter&) = delete;

  // Throws JournalFull, from then on every time. Does nothing after finish().
  void append_text(FrameKind kind, std::string_view header,
                   std::span<const std::byte> payload = {}) override;

  // The last record; later records of other threads are dropped, as their rank has ended.
  void finish(const Ending& ending);

 private:
  std::mutex mutex_;
  JournalHead& head_;
  std::span<std::byte> records_;
  uint64_t count_ = 0;
  bool finished_ = false;
};

// The current contents of a journal.
class JournalView {
 public:
  explicit JournalView(std::span<std::byte> memory);

  bool overflowed() const { return head_.overflowed.load(std::memory_order_acquire) != 0; }
  std::span<std::byte> bytes() const;  // of whole records
  Frames frames() const;

  // The same bytes as a file: what docs/protocol.md describes. Throws TierError.
  void save(const std::filesystem::path& file) const;

  // Empties the journal; its writer must be gone.
  void clear();

 private:
  JournalHead& head_;
  std::span<std::byte> records_;
};

}  // namespace lockstep
