// The words of an enumeration's values, as files, command lines and sentences have them. Each is
// the name of its enumerator; one that would be a keyword of C++ has an underscore behind it
// (`throw_`), which is no part of the word. Values count from 0 without gaps.
#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace lockstep {

template <class E>
concept Enumeration = std::is_enum_v<E>;

namespace words {

// Compilers print an enumerator with its scopes, and a value that has none as "(Scope)7".
template <auto value>
constexpr std::string_view word() {
  std::string_view text = __PRETTY_FUNCTION__;
  text.remove_prefix(text.find("value = ") + 8);
  text = text.substr(0, text.find_first_of(";]"));
  text.remove_prefix(text.rfind(':') + 1);
  if (text.find(')') != text.npos) return {};
  return text.substr(0, text.size() - text.ends_with('_'));
}

template <Enumeration E, int count = 0>
constexpr auto all() {
  if constexpr (!word<static_cast<E>(count)>().empty())
    return all<E, count + 1>();
  else
    return []<int... i>(std::integer_sequence<int, i...>) {
      return std::array<std::string_view, count>{word<static_cast<E>(i)>()...};
    }
  (std::make_integer_sequence<int, count>());
}

template <Enumeration E>
inline constexpr auto kAll = all<E>();

template <auto... values>
inline constexpr std::array kSome{word<values>()...};

}  // namespace words

template <Enumeration E>
std::string word_of(E value) {
  return std::string(words::kAll<E>.at(static_cast<size_t>(value)));
}

// The value with this word; none: no value has it.
template <Enumeration E>
std::optional<E> value_of_word(std::string_view word) {
  const auto found = std::find(words::kAll<E>.begin(), words::kAll<E>.end(), word);
  if (found == words::kAll<E>.end()) return {};
  return static_cast<E>(found - words::kAll<E>.begin());
}

}  // namespace lockstep
