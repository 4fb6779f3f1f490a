#pragma once

#include <chrono>
#include <functional>
#include <string>

namespace lockstep {

// A call that may never return and that nothing can end.
struct Attempt {
  std::function<void()> call;
  // Called where `call` threw, or returned when nobody waited for it any more. Does not throw.
  std::function<void()> clean_up;
  std::chrono::milliseconds time;
  std::function<std::string()> told;  // asked again and again: why to wait no longer, or empty
  bool is_awaited_at_exit = false;    // for a moment, if it was given up
};

// Makes it in a thread, which is left behind where it is given up. Empty: it has returned; else why
// it was given up, `late` where that was for time. Throws what the call threw. Both functions are
// gone when it is over.
std::string make_attempt(Attempt attempt, const std::string& late);

}  // namespace lockstep
