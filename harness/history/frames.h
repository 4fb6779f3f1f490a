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
// was never finished: a rank killed in mid-record leaves such a tail, and readers report it.
#pragma once

#include "harness/history/history.h"

#include <map>

namespace lockstep {

inline constexpr uint64_t kCommit = 0x5045'5453'4b43'4f4cu;  // "LOCKSTEP"

// The numbers are part of the format: never reuse one.
enum class FrameKind : uint32_t {
  begin = 1,        // {"protocol": 1, "rank": r, "world": w, "case": hash}
  moment = 2,       // {"step": s, "phase": p}: what follows happened there
  observation = 3,  // {"name": n, "dtype": d, "shape": [...]}, payload: the elements
  issued = 4,       // {"op", "group", "dtype", "sequence", "elements", "root", "ns", "site"}
  done = 5,         // {"group", "sequence", "ns"}: that collective completed
  injection = 6,    // an Injection that struck
  left_behind = 7,  // {"what": w}
  ending = 8,       // {"kind": k, "why": w, "ns": n}; the last record
  site = 9,         // {"site": n}, payload: return addresses, uint64, innermost first
  layout = 10,      // {"buckets": [{"elements": n, "parameters": [...]}, ...]}: from here on
  // These are of recorded trainings alone (harness/recorded):
  tensors = 11,  // {"list": n, "of": o, "role": r, "tensors": [[name, dtype, [shape]], ...]}
  digests = 12,  // {"list": n}, payload: digest (8 bytes) and norm (float64) of each
  fact = 13,     // {"name": n, "values": {...}}
  span = 14,     // {"name": n, "from": ns, "ns": ns}: what the program did in this time
  values = 15,   // {"list": n}, payload: the elements of each, behind digests of the list
};

struct Frame {
  FrameKind kind = FrameKind::begin;
  Json header;
  std::vector<std::byte> payload;
};

inline constexpr int kProtocol = 1;
inline constexpr size_t kFrameFixedBytes = 24;  // lengths, kind and commit word

// Headers of the frequent records, as text.
std::string header_of(const Moment& moment);
std::string header_of(std::string_view name, std::string_view dtype,
                      const std::vector<int64_t>& shape);  // an observation's
std::string header_of(const Collective& issued);           // `times.queued_ns` is its ns
std::string header_of(const BucketLayout& layout);
std::string header_of(const Ending& ending);
std::string done_header(std::string_view group, int64_t sequence, int64_t ns);

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

// The contents of one rank's frames. A missing `ending` leaves Ending{cut_off}: the process that
// killed the rank knows better. Throws FieldError for frames that no writer of this protocol makes,
// naming the record.
RankHistory rank_history(const Frames& frames, const std::string& where);

// The call sites among a rank's frames, by number. Frames that rank_history refuses are passed
// over.
std::map<int, std::vector<uint64_t>> call_sites(const Frames& frames);

// The bytes a rank with this history would have written, except its call sites; the inverse of
// rank_history. Without times every ns is -1, and the texts of exceptions, which contain waiting
// times, are left out.
enum class WithTimes { no, yes };
std::string frames_of(const RankHistory& rank, WithTimes times = WithTimes::yes);

}  // namespace lockstep
