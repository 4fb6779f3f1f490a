// Where a rank's collectives are issued from. Each distinct stack is put on record once, as the
// addresses it is made of; a collective only names its number.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

namespace lockstep {

class JournalWriter;

// Thread-safe: autograd issues collectives from threads of its own.
class CallSites {
 public:
  // `journal` outlives it.
  CallSites(JournalWriter& journal, bool is_on) : journal_(journal), is_on_(is_on) {}

  // The number of the stack that leads here; -1 where it is off. Throws JournalFull.
  int here();

 private:
  JournalWriter& journal_;
  const bool is_on_;
  std::mutex mutex_;
  std::map<std::vector<uint64_t>, int> numbers_;
};

}  // namespace lockstep
