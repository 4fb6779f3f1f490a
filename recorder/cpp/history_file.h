// One rank's file of a recorded run: records, each written whole before the program continues.
#pragma once

#include "harness/rank/record_writer.h"

#include <filesystem>
#include <mutex>
#include <string>
#include <sys/types.h>

namespace lockstep {

inline constexpr size_t kHistoryBytesMost = 64 << 20;  // `judge` reads no larger one

// Thread-safe: backends complete collectives on threads of their own.
class HistoryFile final : public RecordWriter {
 public:
  // Makes FOLDER/rankN.history. Throws std::runtime_error where it is there or cannot be made.
  HistoryFile(const std::filesystem::path& folder, int rank, size_t bytes_most = kHistoryBytesMost);
  ~HistoryFile() override;
  HistoryFile(const HistoryFile&) = delete;

  // Never throws: a file that is full ends with the ending `overflowed`, and one that cannot be
  // written with a sentence on stderr. Does nothing after the ending, nor in a process that was
  // forked from this one.
  void append_text(FrameKind kind, std::string_view header,
                   std::span<const std::byte> payload = {}) override;

  void end(const Ending& ending);
  bool has_ended() const;

 private:
  void write(FrameKind kind, std::string_view header, std::span<const std::byte> payload);

  const std::string path_;
  const size_t bytes_most_;
  const pid_t process_;
  mutable std::mutex mutex_;  // guards what follows
  int descriptor_ = -1;
  uint64_t count_ = 0;
  size_t bytes_ = 0;
  bool has_ended_ = false;
  std::string record_;  // memory that is used again
};

}  // namespace lockstep
