// Words of a review, as the numbers that a model takes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

constexpr std::int64_t kWords = 128;       // of a review; longer ones are cut, shorter ones padded
constexpr std::int64_t kBuckets = 10'000;  // that words are hashed to; 0 is padding

// In lower case: runs of letters and digits, and each Chinese character alone, since Chinese has no
// spaces between words. Punctuation separates words. The text is UTF-8; what is none counts as
// letters.
std::vector<std::string> words_of(const std::string& review);

// From 1 to kBuckets: the same on every rank and host.
std::int64_t bucket_of(const std::string& word);
