// Phrases of which cases are said in words.
#pragma once

#include "harness/base/text.h"
#include "harness/base/words.h"
#include "harness/verdict/trace.h"
#include "scenarios/standalone/training.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

namespace lockstep::scenarios::standalone {

// Each value of a list, as `phrases` says it.
template <Enumeration E>
std::vector<std::string> each_in(const std::vector<E>& values,
                                 const std::map<E, std::string>& phrases) {
  std::vector<std::string> out;
  for (const auto each : values) out.push_back(phrases.at(each));
  return out;
}

// "has_another_shape" is "has another shape".
template <Enumeration E>
std::string spoken(E value) {
  auto word = word_of(value);
  std::replace(word.begin(), word.end(), '_', ' ');
  return word;
}

// " on rank 0 alone", " on ranks 0, 2" of ranks as bits of a number; empty where it is on all.
inline std::string on_ranks(int bits, int world) {
  std::vector<int> ranks;
  for (int rank = 0; rank < world; ++rank)
    if ((bits >> rank) % 2 == 1) ranks.push_back(rank);
  if (static_cast<int>(ranks.size()) == world) return "";
  if (ranks.empty()) return " on no rank";
  return " on " + ranks_text(ranks) + (ranks.size() == 1 ? " alone" : "");
}

// Says which rank comes too late in the last call of the case; below 0: none does.
inline std::string late_rank_in_words(int rank, int world) {
  if (rank < 0 || world == 1) return "";
  return "; at last rank " + std::to_string(rank % world) + " is waited for in vain";
}

}  // namespace lockstep::scenarios::standalone
