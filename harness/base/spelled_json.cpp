#include "harness/base/spelled_json.h"

#include "harness/base/characters.h"
#include "harness/base/utf8.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <utility>

namespace lockstep {

namespace {

constexpr size_t kEscapeBytes = 6;  // of an escape of JSON

// The code of the escape of JSON, a backslash, u and four digits, that `text` begins with.
std::optional<uint32_t> escaped_code(std::string_view text) {
  uint32_t code = 0;
  if (text.size() < kEscapeBytes || !text.starts_with("\\u")) return {};
  const auto [end, error] = std::from_chars(text.data() + 2, text.data() + kEscapeBytes, code, 16);
  if (error != std::errc() || end != text.data() + kEscapeBytes) return {};
  return code;
}

// The bytes of the escape that `text` begins with, of both where two are a pair of surrogates; 0
// for half of one.
size_t escape_bytes(std::string_view text) {
  const auto code = escaped_code(text);
  if (!code) return std::min<size_t>(text.size(), 2);
  if (*code < 0xd800 || *code > 0xdfff) return kEscapeBytes;
  const auto low = escaped_code(text.substr(kEscapeBytes));
  return *code < 0xdc00 && low && *low >= 0xdc00 && *low <= 0xdfff ? 2 * kEscapeBytes : 0;
}

}  // namespace

std::string with_characters_spelled(std::string_view json) {
  std::string out;
  while (!json.empty()) {
    const bool is_escape = json.front() == '\\';
    const size_t size = is_escape ? escape_bytes(json) : first_character(json).size;
    if (size == 0) out += is_escape ? "\\" : "\\" + one_line(json.substr(0, 1));
    const size_t taken = std::max<size_t>(size, 1);
    if (size > 0 || is_escape) out += json.substr(0, taken);
    json.remove_prefix(taken);
  }
  return out;
}

Json in_lines(Json value, int64_t& values_left) {
  --values_left;
  if (value.is_string()) return one_line(value.get_ref<const std::string&>());
  if (value.is_array())
    for (auto& each : value) each = in_lines(std::move(each), values_left);
  if (!value.is_object()) return value;
  Json::object_t object;
  object.reserve(value.size());
  for (auto& [name, each] : value.get_ref<Json::object_t&>())
    object.Json::object_t::Container::emplace_back(one_line(name),
                                                   in_lines(std::move(each), values_left));
  return Json(std::move(object));
}

}  // namespace lockstep
