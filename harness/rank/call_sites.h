// The call sites of a rank's collectives. Each distinct stack is recorded once, as its return
// addresses; a collective records only the number of its stack.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

namespace lockstep {

class RecordWriter;

// Thread-safe: autograd issues collectives from threads of its own.
class CallSites {
 public:
  // `journal` outlives it.
  CallSites(RecordWriter& journal, bool is_on) : journal_(journal), is_on_(is_on) {}

  // The number of the current stack; -1 where it is off. Throws JournalFull.
  int here();

 private:
  RecordWriter& journal_;
  const bool is_on_;
  std::mutex mutex_;
  std::map<std::vector<uint64_t>, int> numbers_;
};

}  // namespace lockstep
