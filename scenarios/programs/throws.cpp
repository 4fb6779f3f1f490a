#include "scenarios/programs/throws.h"

#include "scenarios/programs/run.h"

namespace lockstep::scenarios::programs {

Findings ranks_are_stopped_alike(const History& h, const Action& finish) {
  const auto threw = h.row({finish.number, kAfter}, kThrew);
  const auto sentence = h.row({finish.number, kAfter}, kSentence);
  std::vector<TensorValue> throws, sentences;
  for (const bool is_ended : finish.is_ended) throws.push_back(int64_values({is_ended ? 1 : 0}));
  sentences.resize(throws.size());
  for (const auto& part : finish.parts)
    for (const int rank : part)
      sentences[static_cast<size_t>(rank)] = sentence.by_rank[static_cast<size_t>(part.front())];
  auto out =
      equal("Where uneven inputs end a join every rank of a group must throw, and elsewhere none",
            {{.row = threw, .expected = throws}});
  out += equal("All ranks of a group must throw the same sentence",
               {{.row = sentence, .expected = sentences}});
  return out;
}

Findings unnoted_changes_are_refused(const History& h, const Action& forward,
                                     const FollowedModel& model) {
  const Moment at{forward.number, kAfter};
  std::vector<TensorValue> sentences;
  for (const auto& each : model.refusals())
    sentences.push_back(int64_values({each.begin(), each.end()}));
  return equal(
      "A forward after parameters were frozen or unfrozen unnoticed must throw on every rank, and "
      "say which and what helps",
      {{.row = h.row(at, kThrew), .expected = {int64_values({1})}},
       {.row = h.row(at, kSentence), .expected = sentences}});
}

}  // namespace lockstep::scenarios::programs
