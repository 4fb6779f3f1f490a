// Forms in which files of a run hold values (fields.h).
#pragma once

#include "harness/base/fields.h"

#include <cmath>
#include <filesystem>

namespace lockstep {

// Text from elsewhere, such as a reason, is written on one line, and has to be one where it is
// read.
struct OnOneLine {
  using Stored = std::string;
  static Stored stored(const std::string& text) { return one_line(text); }
  static std::string take(Stored stored, std::string& text) {
    text = std::move(stored);
    return {};
  }
};
struct EachOnOneLine {
  using Stored = std::vector<std::string>;
  static Stored stored(std::vector<std::string> texts) {
    for (auto& text : texts) text = one_line(text);
    return texts;
  }
  static std::string take(Stored stored, std::vector<std::string>& texts) {
    texts = std::move(stored);
    return {};
  }
};
inline constexpr Allowed kLine = line_up_to(std::numeric_limits<size_t>::max());

template <class Owner>
constexpr auto line(const char* name, std::string Owner::*member) {
  return field<OnOneLine>(name, member, kLine);
}
template <class Owner>
constexpr auto lines(const char* name, std::vector<std::string> Owner::*member) {
  return field<EachOnOneLine>(name, member, kLine);
}

struct InSeconds {
  using Stored = double;
  static Stored stored(std::chrono::milliseconds time) {
    return static_cast<double>(time.count()) / 1000;
  }
  static std::string take(Stored stored, std::chrono::milliseconds& time) {
    time = std::chrono::milliseconds(std::llround(stored * 1000));
    return {};
  }
};
template <class Owner>
constexpr auto seconds(const char* name, std::chrono::milliseconds Owner::*member) {
  return field<InSeconds>(name, member, between(0, 1'000'000'000'000));
}

struct AsPath {
  using Stored = std::string;
  static Stored stored(const std::filesystem::path& path) { return path.string(); }
  static std::string take(Stored stored, std::filesystem::path& path) {
    path = std::move(stored);
    return {};
  }
};

struct AsObject {
  using Stored = Json;
  static Stored stored(const Json& json) { return json; }
  static std::string take(Stored stored, Json& json) {
    json = std::move(stored);
    return json.is_object() ? "" : "an object";
  }
};

}  // namespace lockstep
