#pragma once

#include <chrono>
#include <functional>
#include <string>

namespace lockstep {

// A call that may never return and that nothing can end.
struct Attempt {
  std::function<void()> call;
  // Called if `call` threw, or returned after it was given up. Does not throw.
  std::function<void()> clean_up;
  std::chrono::milliseconds time;
  std::function<std::string()> peer_error;  // polled: why to wait no longer, or empty
  bool is_awaited_at_exit = false;          // briefly, if it was given up
};

// Makes the call in a thread, which is left behind if the call is given up. Returns an empty string
// if the call has returned, else why it was given up, `late` if the time had passed. Throws what
// the call threw. Both functions are destroyed when it is over.
std::string make_attempt(Attempt attempt, const std::string& late);

}  // namespace lockstep
