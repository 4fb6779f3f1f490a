#include "scenarios/errors/judge.h"

#include "harness/base/text.h"
#include "harness/verdict/compare.h"
#include "scenarios/cases/sentences.h"
#include "scenarios/cases/tensors.h"
#include "scenarios/errors/follow.h"
#include "scenarios/errors/run.h"

#include <torch/torch.h>

#include <algorithm>
#include <regex>

namespace lockstep::scenarios::errors {

namespace {

Row sentences_of(const History& h, int step) {
  return h.row({step, kAfter}, kError);
}

bool has(const std::string& sentence, const std::string& text) {
  return sentence.find(text) != std::string::npos;
}

// docs/semantics.md 2.8. All ranks have the same buckets.
std::vector<Followed> followed(const Erring& c, const History& h) {
  std::vector<bool> late;
  for (int s = 0; s < c.steps; ++s)
    late.push_back(as_integers(h.row({s, kAfter}, kFlagIsLate).by_rank.front()).front() != 0);
  return follow(c, late);
}

// Splits a sentence into what it says of each rank: "...: rank 0: all is well; rank 1: lacks 'w0'.
// Every parameter ...".
std::vector<std::string> states_in(const std::string& sentence, size_t world_size) {
  std::vector<std::string> states(world_size);
  size_t at = 0;
  for (size_t rank = 0; rank < world_size; ++rank) {
    const auto who = "rank " + std::to_string(rank) + ": ";
    const auto begin = sentence.find(who, at);
    if (begin == std::string::npos) return states;
    at = begin + who.size();
    const auto next = sentence.find("; rank " + std::to_string(rank + 1) + ": ", at);
    states[rank] = sentence.substr(at, next == std::string::npos ? next : next - at);
  }
  return states;
}

bool is_state(const std::string& seen, const std::string& expected) {
  if (!seen.starts_with(expected)) return false;
  const auto rest = seen.substr(expected.size());
  return expected.find("lacks ") == std::string::npos || !rest.starts_with(",");
}

using Wrong = std::optional<Diagnosis>;

// The last sentence of an error that says these states of the ranks; empty where it has none.
std::string cure_of(const Erring& c, const std::vector<std::string>& states) {
  const auto begin_with = [](const char* text) {
    return [text](const std::string& state) { return state.starts_with(text); };
  };
  if (std::all_of(states.begin(), states.end(), begin_with("its pass comes after ")))
    return "Ranks make the same synchronised forwards and backward passes, in one order: one of "
           "them left out a backward pass, or made a forward more";
  if (std::none_of(states.begin(), states.end(), begin_with("lacks "))) return "";
  return c.options.static_graph
             ? "static_graph promises that every pass uses what the first one did"
             : "Every parameter that requires a gradient must take part in the loss on every rank, "
               "or find_unused_parameters be set";
}

Wrong wrong_unfinished(const Erring& c, const ExpectedError& expected,
                       const std::string& sentence) {
  const std::string kept = c.options.gradient_as_bucket_view
                               ? "what gradients hold is of no use (gradient_as_bucket_view)"
                               : "so each keeps its local gradients";
  if (!has(sentence, "a backward pass could not be averaged on all ranks"))
    return Diagnosis{"another_error", "an error that a pass could not be averaged"};
  if (!has(sentence, kept)) return Diagnosis{"another_consequence", "'" + kept + "'"};
  const auto states = states_in(sentence, expected.states.size());
  for (size_t rank = 0; rank < states.size(); ++rank)
    if (!is_state(states[rank], expected.states[rank]))
      return Diagnosis{"another_state_of_a_rank",
                       "'" + expected.states[rank] + "' of rank " + std::to_string(rank)};
  const auto cure = cure_of(c, expected.states);
  if (!has(sentence, cure)) return Diagnosis{"without_a_cure", "'" + cure + "'"};
  return {};
}

// "rank 0: all-reduce of gradient bucket 0 (collective 4 of this instance) failed after 120 ms:
// ..."
Wrong wrong_about_peers(const ExpectedError& expected, int rank, const std::string& sentence) {
  static const std::regex form(
      "^rank ([0-9]+): .+ \\(collective [0-9]+ of .+\\) failed after T ms: ");
  if (!expected.instead.empty() && has(sentence, expected.instead)) return {};
  std::smatch found;
  if (!std::regex_search(sentence, found, form) || found[1] != std::to_string(rank))
    return Diagnosis{"another_error",
                     "an error that names this rank, its operation and how long "
                     "it waited"};
  if (std::none_of(expected.words.begin(), expected.words.end(),
                   [&](const std::string& word) { return has(sentence, word); }))
    return Diagnosis{"names_another_cause", "'" + joined(expected.words, "' or '") + "'"};
  for (const auto& word : expected.words)
    if (sentence.find(word) != sentence.rfind(word))
      return Diagnosis{"names_its_cause_twice", "'" + word + "' once"};
  return {};
}

// A sentence lists what lacks: `word` must not be the beginning of a longer list.
bool says(const std::string& sentence, const std::string& word) {
  for (auto at = sentence.find(word); at != std::string::npos; at = sentence.find(word, at + 1))
    if (is_state(sentence.substr(at), word)) return true;
  return false;
}

Wrong wrong_about_reports(const ExpectedError& expected, const std::string& sentence) {
  if (std::any_of(expected.words.begin(), expected.words.end(),
                  [&](const std::string& word) { return says(sentence, word); }))
    return {};
  return Diagnosis{"names_another_cause", "'" + joined(expected.words, "' or '") + "'"};
}

Wrong wrong_about(const Erring& c, const ExpectedError& expected, int rank, const Row& sentences) {
  const auto sentence = sentence_in(sentences, rank);
  if (expected.kind == ExpectedError::Kind::nothing)
    return sentence.empty() ? Wrong() : Diagnosis{"error_without_a_cause", "no error"};
  if (sentence.empty() && expected.kind == ExpectedError::Kind::perhaps) return {};
  if (sentence.empty())
    return Diagnosis{"error_does_not_arrive",
                     expected.kind == ExpectedError::Kind::own          ? "its own error"
                     : expected.kind == ExpectedError::Kind::unfinished ? "that the pass failed"
                     : expected.kind == ExpectedError::Kind::reported
                         ? "its own error or its peers'"
                         : "its peers' error"};
  if (expected.kind == ExpectedError::Kind::own) {
    for (const auto& word : expected.words)  // the program's own
      if (!has(sentence, word)) return Diagnosis{"another_error", "'" + word + "'"};
    return {};
  }
  if (!is_in_our_words(sentences)) return {};
  if (expected.kind == ExpectedError::Kind::reported)
    return wrong_about_reports(expected, sentence);
  return expected.kind == ExpectedError::Kind::unfinished
             ? wrong_unfinished(c, expected, sentence)
             : wrong_about_peers(expected, rank, sentence);
}

TensorValue written(const Erring& c, size_t p, const Gradient& gradient) {
  if (!gradient.is_defined) return recorded(torch::empty({0}), at::kDouble);
  return recorded(torch::full({size_of(c, p), 1}, gradient.value, at::kDouble), at::kDouble);
}

}  // namespace

Findings every_rank_returns(const Erring& c, const History& h) {
  for (int rank = 0; rank < h.size(); ++rank) {
    const auto& ending = h.ranks()[static_cast<size_t>(rank)].ending;
    if (ending.kind == Ending::Kind::returned || ending.kind == Ending::Kind::refused) continue;
    const bool waits = ending.kind == Ending::Kind::stuck && c.mistake.kind == MistakeKind::late;
    return {{"Every rank must receive the error, and return",
             waits ? "waits_beyond_its_timeout" : std::string(name_of(ending.kind)),
             "rank " + std::to_string(rank),
             "rank " + std::to_string(rank) + " " + std::string(name_of(ending.kind)) + ": " +
                 ending.why}};
  }
  return {};
}

Findings every_rank_receives_its_error(const Erring& c, const History& h) {
  const auto steps = followed(c, h);
  for (int s = 0; s < c.steps; ++s) {
    const auto sentences = sentences_of(h, s);
    for (int rank = 0; rank < c.world.size; ++rank) {
      const auto& expected = steps[static_cast<size_t>(s)].errors[static_cast<size_t>(rank)];
      const auto sentence = sentence_in(sentences, rank);
      auto wrong = wrong_about(c, expected, rank, sentences);
      const auto late = h.row({s, kAfter}, kLate).by_rank[static_cast<size_t>(rank)];
      if (as_integers(late).front() != 0)
        wrong = Diagnosis{"error_arrives_late", "to receive it within ten seconds"};
      if (!wrong) continue;
      const auto who = "rank " + std::to_string(rank) + " in step " + std::to_string(s);
      return {
          {"Every rank must receive the error that says what went wrong and where, and no other",
           wrong->pattern, "step " + std::to_string(s),
           who + " received " + (sentence.empty() ? "no error" : "'" + sentence + "'") +
               ", expected " + wrong->text}};
    }
  }
  return {};
}

Findings ranks_receive_one_error(const Erring& c, const History& h) {
  const auto steps = followed(c, h);
  for (int s = 0; s < c.steps; ++s) {
    const auto sentences = sentences_of(h, s);
    if (!is_in_our_words(sentences)) continue;
    std::optional<std::string> first;
    for (int rank = 0; rank < c.world.size; ++rank) {
      const auto& expected = steps[static_cast<size_t>(s)].errors[static_cast<size_t>(rank)];
      if (expected.kind != ExpectedError::Kind::unfinished) continue;
      const auto sentence = sentence_in(sentences, rank);
      if (sentence == first.value_or(sentence)) {
        first = sentence;
        continue;
      }
      return {{"Every rank must receive the same error", "sentences_differ",
               "step " + std::to_string(s),
               "rank " + std::to_string(rank) + " received '" + sentence + "', a rank before it '" +
                   *first + "'"}};
    }
  }
  return {};
}

Findings the_log_has_the_error(const Erring& c, const History& h) {
  const auto steps = followed(c, h);
  std::vector<std::string> last(static_cast<size_t>(c.world.size));  // what the log had before
  for (int s = 0; s < c.steps; ++s) {
    if (as_integers(h.row({s, kAfter}, kHasLog).by_rank.front()).front() == 0) return {};
    const auto received = sentences_of(h, s), logged = h.row({s, kAfter}, kErrorInLog);
    for (int rank = 0; rank < c.world.size; ++rank) {
      const auto r = static_cast<size_t>(rank);
      const auto sentence = sentence_in(received, rank), in_log = sentence_in(logged, rank);
      const bool is_of_a_pass =
          steps[static_cast<size_t>(s)].errors[r].kind == ExpectedError::Kind::unfinished;
      const auto expected = sentence.empty() ? last[r] : sentence;
      last[r] = in_log;
      if ((!sentence.empty() && !is_of_a_pass) || in_log == expected) continue;
      return {{"A replica's log must have the error of the last pass that failed",
               in_log.empty() ? "not_logged" : "logged_another_error", "step " + std::to_string(s),
               "rank " + std::to_string(rank) + " has '" + in_log + "' in its log, expected '" +
                   expected + "'"}};
    }
  }
  return {};
}

Findings later_calls_fail(const Erring& c, const History& h) {
  const int step = c.mistake.step % c.steps;
  if (!begins_anew(c)) return {};
  const bool is_late = as_integers(h.row({step, kAfter}, kFlagIsLate).by_rank.front()).front() != 0;
  for (size_t i = 0; i < c.attempts.size() && !is_late; ++i) {
    const auto sentences = h.row({step, kAfter}, name_of_attempt(i));
    for (int rank = 0; rank < c.world.size; ++rank) {
      if (!is_left_waiting(c, step, rank)) continue;
      const auto sentence = sentence_in(sentences, rank);
      const bool fails = c.attempts[i] != Attempt::bare;
      const std::string words = "an earlier reduction failed";
      if (sentence.empty() == !fails &&
          (!fails || !is_in_our_words(sentences) || has(sentence, words)))
        continue;
      return {
          {"After an error that ended its training a rank's later calls must fail as well, but "
           "for those that need no peer",
           fails ? (sentence.empty() ? "later_call_returns" : "another_error") : "bare_pass_fails",
           "step " + std::to_string(step),
           "rank " + std::to_string(rank) + ", " + word_of(c.attempts[i]) + ": " +
               (sentence.empty() ? "no error" : "'" + sentence + "'") + ", expected " +
               (fails ? "'" + words + "'" : "no error")}};
    }
  }
  return {};
}

Findings gradients_are_as_said(const Erring& c, const History& h) {
  Findings out;
  const auto steps = followed(c, h);
  for (int s = 0; s < c.steps; ++s) {
    const auto& step = steps[static_cast<size_t>(s)];
    if (!step.are_judged) continue;
    std::vector<Comparison> rows;
    for (size_t p = 0; p < parameter_count(c); ++p) {
      const auto row = h.row({s, kAfter}, name_of(p));
      std::vector<TensorValue> expected;
      for (size_t rank = 0; rank < row.by_rank.size(); ++rank) {
        const auto& gradient = step.gradients[rank][p];
        expected.push_back(gradient.is_known ? written(c, p, gradient) : row.by_rank[rank]);
      }
      rows.push_back({.row = row, .expected = expected});
    }
    out += equal(
        "A gradient must hold the average where all is well, and what its rank computed where not",
        rows);
  }
  return out;
}

}  // namespace lockstep::scenarios::errors
