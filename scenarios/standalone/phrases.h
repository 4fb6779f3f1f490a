// Phrases of which cases are said in words.
#pragma once

#include "harness/base/json.h"
#include "harness/base/text.h"
#include "harness/verdict/trace.h"
#include "scenarios/standalone/training.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace lockstep::scenarios::standalone {

using Words = std::map<std::string, std::string>;

inline int64_t number(const Json& value, const char* field) {
  return value.at(field).get<int64_t>();
}

inline std::string steps_text(const Json& value) {
  return steps_in_words(number(value, "steps"));
}

// Each element of a list of words, as `words` says it.
inline std::vector<std::string> each_in(const Json& words_of_case, const Words& words) {
  std::vector<std::string> out;
  for (const auto& each : words_of_case) out.push_back(words.at(each.get<std::string>()));
  return out;
}

// " on rank 0 alone", " on ranks 0, 2" of ranks as bits of a number; empty where it is on all.
inline std::string on_ranks(int64_t bits, int64_t world) {
  std::vector<int> ranks;
  for (int rank = 0; rank < world; ++rank)
    if ((bits >> rank) % 2 == 1) ranks.push_back(rank);
  if (static_cast<int64_t>(ranks.size()) == world) return "";
  if (ranks.empty()) return " on no rank";
  return " on " + ranks_text(ranks) + (ranks.size() == 1 ? " alone" : "");
}

// Says which rank comes too late in the last call of the case; the field is below 0 where none
// does.
inline std::string late_rank_in_words(const Json& value, const char* field) {
  const auto size = number(value.at("world"), "size"), rank = number(value, field);
  if (rank < 0 || size == 1) return "";
  return "; at last rank " + std::to_string(rank % size) + " is waited for in vain";
}

}  // namespace lockstep::scenarios::standalone
