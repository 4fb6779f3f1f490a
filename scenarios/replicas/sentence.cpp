#include "scenarios/replicas/sentence.h"

#include "harness/base/text.h"
#include "scenarios/cases/sentences.h"

#include <algorithm>
#include <regex>

namespace lockstep::scenarios::replicas {

namespace {

using Wrong = std::optional<Diagnosis>;

Wrong names_the_difference(const Refusal& refusal, const std::string& sentence) {
  const auto has = [&](const std::string& text) {
    return sentence.find(text) != std::string::npos;
  };
  const auto about = "ranks disagree on " + refusal.subject + ": ";
  if (!has(about)) return Diagnosis{"names_another_difference", "'" + about + "'"};
  std::string whole = about;
  for (const auto& [text, ranks] : refusal.values) {
    if (!has(text)) return Diagnosis{"names_another_value", "'" + text + "'"};
    whole += (whole == about ? "" : "; ") + named(ranks) +
             (ranks.size() == 1 ? " has " : " have ") + text;
  }
  if (sentence == whole) return {};
  return Diagnosis{"names_other_ranks", "'" + whole + "'"};
}

// "ranks 0 and 2 of 3 cannot take part: REASON; rank 1 of 3 cannot take part: REASON"
Wrong names_who_cannot(const Refusal& refusal, const std::string& sentence) {
  const auto count = refusal.mistakes.size();
  const std::regex part("ranks? ([0-9]+(?:(?:, | and )[0-9]+)*) of " + std::to_string(count) +
                        " cannot take part: ");
  std::vector<std::string> reasons(count);
  for (std::sregex_iterator at(sentence.begin(), sentence.end(), part), end; at != end; ++at) {
    const auto begin = static_cast<size_t>(at->position() + at->length());
    const auto next = std::next(at);
    const auto stop = next == end ? sentence.size() : static_cast<size_t>(next->position());
    const auto ranks = (*at)[1].str();
    const std::regex number("[0-9]+");
    for (std::sregex_iterator rank(ranks.begin(), ranks.end(), number); rank != end; ++rank) {
      const auto which = std::stoul(rank->str());
      if (which < count) reasons[which] = sentence.substr(begin, stop - begin);
    }
  }
  for (size_t rank = 0; rank < count; ++rank) {
    const auto& mistakes = refusal.mistakes[rank];
    const auto who = "rank " + std::to_string(rank);
    if (mistakes.empty() != reasons[rank].empty())
      return Diagnosis{"names_other_ranks",
                       who + (mistakes.empty() ? " not to be named" : " to be named")};
    const auto is_named = [&](const std::vector<std::string>& words) {
      return std::all_of(words.begin(), words.end(), [&](const std::string& word) {
        return reasons[rank].find(word) != std::string::npos;
      });
    };
    if (!mistakes.empty() && std::none_of(mistakes.begin(), mistakes.end(), is_named))
      return Diagnosis{"names_another_reason",
                       who + " to have '" + joined(mistakes.front(), " ... ") + "'"};
  }
  return {};
}

}  // namespace

std::optional<Diagnosis> wrong_in_sentence(const Refusal& refusal, const std::string& sentence) {
  return refusal.is_of_single_ranks() ? names_who_cannot(refusal, sentence)
                                      : names_the_difference(refusal, sentence);
}

}  // namespace lockstep::scenarios::replicas
