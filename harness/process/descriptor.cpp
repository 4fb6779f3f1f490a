#include "harness/process/descriptor.h"

#include "harness/base/tier_errors.h"
#include "harness/process/system_limit.h"

#include <algorithm>
#include <cerrno>
#include <limits>
#include <unistd.h>

namespace lockstep {

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  if (this != &other) {
    close();
    number_ = std::exchange(other.number_, -1);
  }
  return *this;
}

void Descriptor::close() {
  if (number_ >= 0) ::close(std::exchange(number_, -1));
}

int checked(int result, const std::string& what) {
  if (result == -1) throw TierError(what + ": " + reason_of(errno));
  return result;
}

int milliseconds_until(std::chrono::steady_clock::time_point when) {
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(when - std::chrono::steady_clock::now());
  return static_cast<int>(std::clamp<int64_t>(left.count(), 0, std::numeric_limits<int>::max()));
}

}  // namespace lockstep
