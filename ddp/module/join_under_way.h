#pragma once

#include "ddp/join.h"
#include "ddp/joinable.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

// State that an instance and the guard of its join share. Everything is Local.
struct JoinUnderWay {
  JoinOptions options;
  std::vector<std::shared_ptr<Joinable>> joinables;
  std::int64_t forward_count = 0;  // of those that were counted
  std::int64_t call_count = 0;     // of joinables
  int last_to_join = 0;            // the highest rank that had inputs in the last step
  std::string ended;               // why it ended; empty while it is under way

  // Until the join ends, a joinable that announces a call calls `tell` with its place.
  void listen(const std::function<void(std::size_t)>& tell);
  void end(const std::string& why);

  std::vector<std::string> names() const;  // of the joinables

  // Why these cannot be in a join, if they cannot.
  static std::optional<std::string> validation_error_to(
      const std::vector<std::shared_ptr<Joinable>>& joinables);
};

}  // namespace lockstep
