// Where a rank's records go: into shared memory (journal.h), or into a file.
#pragma once

#include "harness/history/frames.h"

#include <span>

namespace lockstep {

class RecordWriter {
 public:
  virtual ~RecordWriter() = default;

  // Appends one whole record. Thread-safe; never blocks on another process.
  virtual void append_text(FrameKind kind, std::string_view header,
                           std::span<const std::byte> payload = {}) = 0;

  // Text that is not UTF-8 (an exception's, a path) is still worth reading.
  void append(FrameKind kind, const Json& header, std::span<const std::byte> payload = {}) {
    append_text(kind, header.dump(-1, ' ', false, Json::error_handler_t::replace), payload);
  }
};

}  // namespace lockstep
