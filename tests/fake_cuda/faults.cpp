#include "tests/fake_cuda/faults.h"

#include "tests/fake_cuda/journal.h"

#include <csignal>
#include <cstdlib>
#include <map>
#include <mutex>
#include <unistd.h>

namespace lockstep::fake_cuda {

namespace {

using Faults = std::map<std::pair<std::string, int>, std::string>;

Faults asked_for() {
  Faults faults;
  const char* const variable = std::getenv("LOCKSTEP_FAKE_CUDA_FAULTS");
  std::string rest = variable != nullptr ? variable : "";
  while (!rest.empty()) {
    const std::string one = rest.substr(0, rest.find(','));
    rest = one.size() < rest.size() ? rest.substr(one.size() + 1) : "";
    const auto at = one.find('@');
    const auto equals = one.find('=');
    if (at == std::string::npos || equals == std::string::npos || equals < at)
      give_up("'" + one + "' is no fault: expected FUNCTION@N=WHAT");
    const int number = std::atoi(one.substr(at + 1, equals - at - 1).c_str());
    faults[{one.substr(0, at), number}] = one.substr(equals + 1);
  }
  return faults;
}

}  // namespace

std::string fault_of(const std::string& function) {
  static const Faults* const faults = new Faults(asked_for());
  static auto* const counts = new std::map<std::string, int>;
  static auto* const mutex = new std::mutex;
  if (faults->empty()) return "";
  std::string what;
  {
    const std::lock_guard lock(*mutex);
    const auto found = faults->find({function, ++(*counts)[function]});
    if (found == faults->end()) return "";
    what = found->second;
  }
  note("fault", function + " " + what);
  if (what == "kill") ::kill(::getpid(), SIGKILL);
  return what;
}

}  // namespace lockstep::fake_cuda
