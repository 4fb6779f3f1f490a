// The one format of a history, in memory and on disk: framed records. docs/protocol.md is its
// specification for programs that are not ours.
//
//   offset  size  what
//   0       4     length of the JSON header in bytes
//   4       4     kind (FrameKind)
//   8       8     length of the payload in bytes
//   16      h     JSON header, UTF-8
//   16+h    p     payload, raw
//   ...           zero bytes up to the next multiple of 8
//   ...     8     commit word: kCommit xor the record's number, counted from 0
//
// All numbers little-endian. A record whose commit word is missing or wrong, and all that follows,
// was never finished: a rank killed in mid-record leaves such a tail, and readers say so.
#pragma once

#include "harness/core/history.h"

namespace lockstep {

inline constexpr uint64_t kCommit = 0x5045'5453'4b43'4f4cu;  // "LOCKSTEP"

// The numbers are part of the format: never reuse one.
enum class FrameKind : uint32_t {
  begin = 1,        // {"protocol": 1, "rank": r, "world": w, "case": hash}
  moment = 2,       // {"step": s, "phase": p}: what follows happened there
  observation = 3,  // {"name": n, "dtype": d, "shape": [...]}, payload: the elements
  issued = 4,       // {"op", "group", "dtype", "sequence", "elements", "root", "ns"}
  done = 5,         // {"group", "sequence", "ns"}: that collective completed
  injection = 6,    // an Injection that struck
  left_behind = 7,  // {"what": w}
  ending = 8,       // {"kind": k, "why": w}; the last record
};

struct Frame {
  FrameKind kind = FrameKind::begin;
  Json header;
  std::vector<std::byte> payload;
};

inline constexpr int kProtocol = 1;
inline constexpr size_t kFrameFixedBytes = 24;  // lengths, kind and commit word

// Bytes the frame takes, padding and commit word included.
size_t framed_size(size_t header_bytes, size_t payload_bytes);

// Writes everything but the commit word to `to`, which has framed_size bytes; returns the commit
// word's place. The caller stores the word last.
std::byte* write_frame(std::byte* to, FrameKind kind, std::string_view header, const void* payload,
                       size_t payload_bytes);

struct Frames {
  std::vector<Frame> frames;
  std::string tail;  // why reading stopped before the end; empty when all was read
};
Frames read_frames(const std::byte* bytes, size_t size);

// What one rank's frames say. A missing `ending` leaves Ending{cut_off}: who killed the rank knows
// better. Throws FieldError for frames that no writer of this protocol makes, naming the record.
RankHistory rank_history(const Frames& frames, const std::string& where);

// The bytes a rank with this history would have written; the inverse of rank_history.
std::string frames_of(const RankHistory& rank);

}  // namespace lockstep
