// Errors of a command line, one sentence each, and the parsing of flag values. Values arrive as
// strings, so that each error sentence is ours: it names the flag, the value and what is allowed.
#pragma once

#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace lockstep::cli {

struct UsageError : std::runtime_error {
  using runtime_error::runtime_error;
};

// No scenario is left to run; the text says why.
struct NothingSelected : std::runtime_error {
  using runtime_error::runtime_error;
};

// "--cases 0: expected a whole number from 1 to 1,000,000".
int64_t whole_number(const std::string& flag, const std::string& text, int64_t least, int64_t most);

// The same for a flag whose value is a T.
template <class T>
auto whole_numbers(T least, T most) {
  return [=](const std::string& flag, const std::string& text) {
    return static_cast<T>(
        whole_number(flag, text, static_cast<int64_t>(least), static_cast<int64_t>(most)));
  };
}

// Decimal, or hexadecimal after 0x.
uint64_t seed_value(const std::string& flag, const std::string& text);

// Seconds, more than 0 and at most a day: "30", "0.5".
std::chrono::milliseconds time_limit(const std::string& flag, const std::string& text);

// "90s", "10m", "1.5h", or seconds: more than 0 and at most a week.
std::chrono::milliseconds duration(const std::string& flag, const std::string& text);

// The comma-separated words, each one of `known`.
std::vector<std::string> words(const std::string& flag, const std::string& text,
                               const std::vector<std::string>& known);

}  // namespace lockstep::cli
