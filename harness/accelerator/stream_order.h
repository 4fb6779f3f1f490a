#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace lockstep::accelerator {

// Of each stream, how many of its operations are over: what an event stands for, and what a stream
// or the host can rely on. Entry i belongs to stream i; a missing entry is zero.
using Clock = std::vector<std::uint64_t>;

// Whether who relies on `now` is behind an event.
bool covers(const Clock& now, const Clock& event);

// Bytes that an operation touches: [begin, end).
struct Access {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
  bool writes = false;
};

// Two uses of the same memory that nothing puts in an order, or memory given back too early.
struct Hazard {
  enum class Kind {
    kReadOfWrite,      // `later` reads what `earlier` wrote
    kWriteOfRead,      // `later` writes what `earlier` reads
    kWriteOfWrite,     // both write
    kUsedBeforeOwned,  // `later` uses memory that its stream of allocation may still use
    kFreedWhileUsed,   // freed, while the stream of `earlier` may still use it
  };
  Kind kind = Kind::kReadOfWrite;
  std::string earlier, later;  // operations; empty where it is the allocation or the end
  std::string earlier_stream,
      later_stream;  // streams; of an allocation or an end the one allocated on
  std::uintptr_t bytes = 0;

  // "all-reduce on stream 3 of device 0 reads 512 bytes that copy_ on stream 0 of device 0 wrote,
  // and nothing makes stream 3 of device 0 wait for it".
  std::string sentence() const;
};

// Judges a program by the order that it asks for, not by the one that happened. Operations are told
// in the order in which the host submits them. One is after another if it is behind it on its
// stream, if its stream waited for an event recorded behind it, or if the host waited for it before
// submitting; that holds through any number of steps. Of two that touch the same bytes, at least
// one writing, the one must be after the other: else there is a hazard, whatever the values were.
//
// All threads of the host count as one: what orders them is not seen here, and who hands work to
// another thread has ordered it. Not thread-safe.
class StreamOrder {
 public:
  // A stream's number: 0, 1, ... in the order of these calls.
  std::size_t add_stream(std::string name);

  // Memory that comes from the pool of a stream: what it held before may still be used there, by
  // anything submitted to that stream until now.
  void allocate(std::uintptr_t begin, std::size_t bytes, std::size_t stream);
  // Given back to that pool, by the address at which it begins, which may be used again at once, by
  // the pool's stream; but not before what was submitted until now to streams named by use_on().
  void free(std::uintptr_t begin);
  void use_on(std::uintptr_t begin, std::size_t stream);

  // An operation on a stream, with all that it touches. Memory that was not allocated is nobody's
  // business.
  void submit(std::size_t stream, const std::string& operation,
              const std::vector<Access>& accesses);

  // An event behind all that was submitted to a stream; a stream that waits for one; a host that
  // does.
  Clock record(std::size_t stream);
  void wait(std::size_t stream, const Clock& event);
  void host_wait(const Clock& event);
  // What the host has waited for.
  const Clock& host() const { return host_; }

  // In the order in which they were found.
  const std::vector<Hazard>& hazards() const { return hazards_; }
  void clear_hazards() { hazards_.clear(); }

 private:
  struct Stream {
    std::string name;
    Clock clock;
  };
  // A use that a later one may still collide with.
  struct Use {
    Access access;
    std::size_t stream = 0;
    std::uint64_t number = 0;  // of the operation, on its stream
    std::string operation;
    Clock allocated;  // of an allocation, which is no operation: what its stream relied on
  };
  struct Block {
    std::uintptr_t end = 0;
    std::size_t stream = 0;
    std::set<std::size_t> also_on;
    std::vector<Use> uses;
  };

  static bool is_over(const Use& use, const Clock& now);
  // What operations submitted to a stream from now on can rely on.
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
