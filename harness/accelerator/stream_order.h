#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace lockstep::accelerator {

// A vector clock: the number of finished operations of each stream. It represents an event, and
// what a stream or the host can rely on. Entry i belongs to stream i; a missing entry is zero.
using Clock = std::vector<std::uint64_t>;

// True if `now` is at or after an event.
bool covers(const Clock& now, const Clock& event);

// Bytes that an operation touches: [begin, end).
struct Access {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
  bool writes = false;
};

// Two unordered uses of the same memory, or memory freed too early.
struct Hazard {
  enum class Kind {
    kReadOfWrite,      // `later` reads what `earlier` wrote
    kWriteOfRead,      // `later` writes what `earlier` reads
    kWriteOfWrite,     // both write
    kUsedBeforeOwned,  // `later` uses memory that its stream of allocation may still use
    kFreedWhileUsed,   // freed, while the stream of `earlier` may still use it
  };
  Kind kind = Kind::kReadOfWrite;
  std::string earlier, later;  // operations; empty for the allocation or the free
  std::string earlier_stream,
      later_stream;  // streams; of an allocation or a free the one allocated on
  std::uintptr_t bytes = 0;

  // "all-reduce on stream 3 of device 0 reads 512 bytes that copy_ on stream 0 of device 0 wrote,
  // and nothing makes stream 3 of device 0 wait for it".
  std::string sentence() const;
};

// Checks happens-before: judges a program by the order that it requests, not by the one that
// happened. Operations are reported in the order in which the host submits them. Operation B is
// after A if it follows A on its stream, if its stream waited for an event recorded after A, or if
// the host waited for A before submitting B; the relation is transitive. If two operations touch
// the same bytes, at least one writing, one must be after the other: else there is a hazard,
// whatever the values were.
//
// All host threads count as one: synchronisation between them is not seen here, and a hand-over to
// another thread counts as ordered. It is not thread-safe.
class StreamOrder {
 public:
  // A stream's number: 0, 1, ... in the order of these calls.
  std::size_t add_stream(std::string name);

  // Memory from the pool of a stream: operations submitted to that stream until now may still use
  // its previous contents.
  void allocate(std::uintptr_t begin, std::size_t bytes, std::size_t stream);
  // Returns memory to that pool, by its first address. The pool's stream may reuse it at once, but
  // not before everything submitted until now to the streams named by use_on().
  void free(std::uintptr_t begin);
  void use_on(std::uintptr_t begin, std::size_t stream);

  // An operation on a stream, with all its accesses. Memory that was not allocated is ignored.
  void submit(std::size_t stream, const std::string& operation,
              const std::vector<Access>& accesses);

  // Records an event after everything submitted to a stream; makes a stream wait for one, or the
  // host.
  Clock record(std::size_t stream);
  void wait(std::size_t stream, const Clock& event);
  void host_wait(const Clock& event);
  // The host's clock: everything it has waited for.
  const Clock& host() const { return host_; }

  // In the order in which they were found.
  const std::vector<Hazard>& hazards() const { return hazards_; }
  void clear_hazards() { hazards_.clear(); }

 private:
  struct Stream {
    std::string name;
    Clock clock;
  };
  // A use that a later one may still conflict with.
  struct Use {
    Access access;
    std::size_t stream = 0;
    std::uint64_t number = 0;  // of the operation, on its stream
    std::string operation;
    Clock allocated;  // of an allocation, which is no operation: its stream's clock
  };
  struct Block {
    std::uintptr_t end = 0;
    std::size_t stream = 0;
    std::set<std::size_t> also_on;
    std::vector<Use> uses;
  };

  static bool is_over(const Use& use, const Clock& now);
  // The clock of operations submitted to a stream from now on.
  Clock& up_to_date(std::size_t stream);
  Block* block_of(const Access& access);
  void judge(const Use& later, const Use& earlier, std::size_t first_hazard);
  static void remember(Block& block, const Use& use, const Clock& now);

  std::vector<Stream> streams_;
  Clock host_;
  std::map<std::uintptr_t, Block> blocks_;
  std::vector<Hazard> hazards_;
};

}  // namespace lockstep::accelerator
