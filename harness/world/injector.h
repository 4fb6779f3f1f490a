// Does to a rank what its case planted there: the one place where injections strike.
#pragma once

#include "harness/core/case.h"

#include <mutex>
#include <stdexcept>
#include <vector>

namespace lockstep {

class JournalWriter;

// What an injected "throw" throws.
struct InjectedError : std::runtime_error {
  using runtime_error::runtime_error;
};

// Local. Each injection strikes once: it is recorded first, then
//   delay  sleeps for `amount` milliseconds          kill   is killed (SIGKILL)
//   exit   ends the process with status `amount`     stop   is stopped (SIGSTOP)
//   throw  throws InjectedError
class Injector {
 public:
  // `journal` outlives the injector. Those of `all` that are for other ranks are left out.
  Injector(const std::vector<Injection>& all, int rank, JournalWriter& journal);

  // Called before the rank issues collective `sequence`, and as it enters `moment`. Any thread.
  void at_collective(int64_t sequence);
  void at_moment(const Moment& moment);

 private:
  template <class Matches>
  void strike_where(const Matches& matches);

  std::mutex mutex_;
  std::vector<Injection> planted_;
  JournalWriter& journal_;
};

}  // namespace lockstep
