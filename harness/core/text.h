// Small work on strings that several folders share.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

std::vector<std::string> split(std::string_view text, char separator);
std::string joined(const std::vector<std::string>& parts, std::string_view separator);

// "1,234,567".
std::string with_commas(int64_t number);

// The number `text` is, whole; nothing else around it.
std::optional<int64_t> parsed_int(std::string_view text);

// The words of `known` that a typing mistake away from `word`, nearest first; at most three.
std::vector<std::string> near_names(const std::string& word, const std::vector<std::string>& known);

// " (did you mean 'x'?)", or nothing where nothing is near.
std::string did_you_mean(const std::string& word, const std::vector<std::string>& known);

// 64-bit FNV-1a, as sixteen hexadecimal digits.
std::string hash_of(std::string_view bytes);

}  // namespace lockstep
