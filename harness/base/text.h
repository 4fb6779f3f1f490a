// Small string functions that several folders share.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

std::vector<std::string> split(std::string_view text, char separator);
std::string joined(const std::vector<std::string>& parts, std::string_view separator);

// "a, b, c and 4 more": the first `most` of them, and the number of the others.
std::string listed(const std::vector<std::string>& names, size_t most = 8);
std::string listed(const std::vector<int64_t>& numbers, size_t most = 8);

// "1,234,567".
std::string with_commas(int64_t number);

// "1 case", "1,200 cases"; a plural without an s is given.
std::string counted(std::integral auto number, const std::string& one,
                    const std::string& many = "") {
  return with_commas(static_cast<int64_t>(number)) + " " +
         (number == 1    ? one
          : many.empty() ? one + "s"
                         : many);
}

// The whole number that `text` is, if it holds nothing else.
std::optional<int64_t> parsed_int(std::string_view text);

// The words of `known` within a typing mistake of `word`, nearest first; at most three.
std::vector<std::string> near_names(const std::string& word, const std::vector<std::string>& known);

// " (did you mean 'x'?)", or "" where nothing is near.
std::string did_you_mean(const std::string& word, const std::vector<std::string>& known);

// `text` as a message quotes it: whole where that takes a few lines at most; else its head, its
// tail and its length, cut between characters of UTF-8.
std::string excerpt(const std::string& text);

// 64-bit FNV-1a, as sixteen hexadecimal digits.
std::string hash_of(std::string_view bytes);

}  // namespace lockstep
