#include "cli/usage.h"

#include "harness/base/text.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace lockstep::cli {

namespace {

constexpr double kSecondsADay = 86400;

[[noreturn]] void refuse(const std::string& flag, const std::string& text,
                         const std::string& expected) {
  throw UsageError(flag + " " + text + ": expected " + expected);
}

template <class T, class... How>
bool read_whole(std::string_view text, T& value, How... how) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, how...);
  return !text.empty() && error == std::errc() && end == text.data() + text.size();
}

}  // namespace

int64_t whole_number(const std::string& flag, const std::string& text, int64_t least,
                     int64_t most) {
  const auto value = parsed_int(text);
  if (!value || *value < least || *value > most)
    refuse(flag, text, "a whole number from " + with_commas(least) + " to " + with_commas(most));
  return *value;
}

uint64_t seed_value(const std::string& flag, const std::string& text) {
  uint64_t value = 0;
  const bool read = text.starts_with("0x") ? read_whole(std::string_view(text).substr(2), value, 16)
                                           : read_whole(text, value);
  if (!read) refuse(flag, text, "a whole number below 2^64, or one in hexadecimal after 0x");
  return value;
}

std::chrono::milliseconds time_limit(const std::string& flag, const std::string& text) {
  double seconds = 0;
  if (!read_whole(text, seconds) || !(seconds >= 0.001 && seconds <= kSecondsADay))
    refuse(flag, text, "seconds: more than 0 and at most 86,400");
  return std::chrono::milliseconds(std::llround(seconds * 1000));
}

std::chrono::milliseconds duration(const std::string& flag, const std::string& text) {
  const std::string_view units = "smh";
  const auto unit = text.empty() ? std::string_view::npos : units.find(text.back());
  const bool has_unit = unit != std::string_view::npos;
  double value = 0;
  if (!read_whole(std::string_view(text).substr(0, text.size() - has_unit), value))
    refuse(flag, text, "a time such as 90s, 10m or 1.5h");
  const double seconds = value * (unit == 1 ? 60 : unit == 2 ? 3600 : 1);
  if (!(seconds >= 0.001 && seconds <= 7 * kSecondsADay))
    refuse(flag, text, "more than 0 and at most a week");
  return std::chrono::milliseconds(std::llround(seconds * 1000));
}

std::vector<std::string> words(const std::string& flag, const std::string& text,
                               const std::vector<std::string>& known) {
  const auto given = split(text, ',');
  for (const auto& word : given)
    if (std::find(known.begin(), known.end(), word) == known.end())
      throw UsageError(flag + " " + text + ": unknown value '" + word + "'" +
                       did_you_mean(word, known) + "; known: " + joined(known, ", "));
  return given;
}

}  // namespace lockstep::cli
