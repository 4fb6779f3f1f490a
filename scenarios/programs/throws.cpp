#include "scenarios/programs/throws.h"

#include "scenarios/cases/sentences.h"
#include "scenarios/programs/run.h"

namespace lockstep::scenarios::programs {

namespace {

std::string who_has(const std::vector<int>& ranks) {
  return named(ranks) + (ranks.size() == 1 ? " has" : " have");
}

// docs/semantics.md 2.7. Ranks have the numbers of their group.
std::string uneven_inputs_in(const std::vector<int>& group, const Action& finish, int forwards) {
  std::vector<int> without, with;
  for (size_t i = 0; i < group.size(); ++i) {
    const auto rank = static_cast<size_t>(group[i]);
    (finish.is_stopped[rank] ? with : without).push_back(static_cast<int>(i));
  }
  return "inputs are uneven: " + who_has(without) + " none left after " + std::to_string(forwards) +
         (forwards == 1 ? " forward" : " forwards") + " of the join, and " + who_has(with) +
         " more; every rank stops here (throw_on_early_termination)";
}

TensorValue as_value(const std::string& sentence) {
  return int64_values({sentence.begin(), sentence.end()});
}

}  // namespace

Findings ranks_are_stopped_alike(const History& h, const Action& finish,
                                 const FollowedModel& model) {
  const Moment at{finish.number, kAfter};
  std::vector<TensorValue> throws, sentences(finish.is_ended.size());
  for (const bool is_ended : finish.is_ended) throws.push_back(int64_values({is_ended ? 1 : 0}));
  for (const auto& group : finish.parts)
    for (const int rank : group) {
      const auto forwards = model.forwards_counted(rank);
      sentences[static_cast<size_t>(rank)] = as_value(
          finish.is_ended[static_cast<size_t>(rank)] ? uneven_inputs_in(group, finish, forwards)
                                                     : "");
    }
  auto out =
      equal("Where uneven inputs end a join every rank of a group must throw, and elsewhere none",
            {{.row = h.row(at, kThrew), .expected = throws}});
  const auto said = h.row(at, kSentence);
  if (!is_in_our_words(said)) return out;
  out += equal("Every rank must say which ranks have no inputs left, and after how many forwards",
               {{.row = said, .expected = sentences, .explanations = [] {
                   return Explanations{[](const Difference&) {
                     return std::optional(Diagnosis{
                         "another_sentence",
                         "another sentence, of other ranks or another number of forwards"});
                   }};
                 }}});
  return out;
}

Findings unnoted_changes_are_refused(const History& h, const Action& forward,
                                     const FollowedModel& model) {
  const Moment at{forward.number, kAfter};
  std::vector<TensorValue> sentences;
  for (const auto& each : model.refusals()) sentences.push_back(as_value(each));
  std::vector<Comparison> rows{{.row = h.row(at, kThrew), .expected = {int64_values({1})}}};
  const auto said = h.row(at, kSentence);
  if (is_in_our_words(said)) rows.push_back({.row = said, .expected = sentences});
  return equal(
      "A forward after parameters were frozen or unfrozen unnoticed must throw on every rank, and "
      "say which and what helps",
      rows);
}

}  // namespace lockstep::scenarios::programs
