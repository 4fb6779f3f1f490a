// A file descriptor, closed with its owner; and system calls whose failure is a sentence.
#pragma once

#include <chrono>
#include <string>
#include <utility>

namespace lockstep {

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept;
  ~Descriptor() { close(); }

  int number() const { return number_; }
  void close();

 private:
  int number_ = -1;
};

// The result of a system call that returns -1 for failure. Throws TierError: `what`, then errno's
// text.
int checked(int result, const std::string& what);

// The timeout of poll() for a wait until `when`: whole milliseconds, rounded up, so that a wait
// never ends early; 0 if `when` has passed.
int milliseconds_until(std::chrono::steady_clock::time_point when);

}  // namespace lockstep
