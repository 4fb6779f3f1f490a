// Findings of checks, and the verdict that a judge makes of them.
#pragma once

#include "harness/base/table.h"
#include "harness/history/history.h"

namespace lockstep {

// Where a rule is broken: at one element of a record at a moment, or at what words name: "rank 1".
// Places with the same text are the same.
struct FindingPlace {
  FindingPlace() = default;
  FindingPlace(std::string in_words) : words(std::move(in_words)) {}
  FindingPlace(const char* in_words) : words(in_words) {}
  FindingPlace(Moment moment, std::string of_record, std::vector<int64_t> of_element = {})
      : at(std::move(moment)), record(std::move(of_record)), index(std::move(of_element)) {}

  std::string text() const;  // "step 1, after, w[1, 1]"
  bool empty() const { return !at && words.empty(); }
  friend bool operator==(const FindingPlace& a, const FindingPlace& b) {
    return a.text() == b.text();
  }

  std::string words;
  std::optional<Moment> at;  // none: only words name the place
  std::string record;
  std::vector<int64_t> index;  // of the element
};

// How much a pattern explains: which ranks differ; a relation between the numbers; or what a known
// mistake would do, as every pattern does that is neither.
enum class Specificity { which_ranks, relation, explanation };

// One broken rule, as shown by one history. `rule` is the sentence that does not hold; `pattern`
// names what the numbers show ("sum_not_average"), or is empty; `where` is the first place;
// `diagnosis` is one sentence, and `details` are what shows it.
struct Finding {
  std::string rule, pattern;
  FindingPlace where;
  std::string diagnosis;
  Details details = {};
  Specificity specificity = Specificity::explanation;  // of the pattern
  // The usual cause and the limit (usual_cause.h), where more is known than the pattern says.
  std::string cause = {};
  std::string limit = {};
  bool operator==(const Finding&) const = default;
};
using Findings = std::vector<Finding>;

// The pattern of a claim about which a run has something that the claim does not cover.
inline constexpr const char* kNotCovered = "not_covered";

// The pattern of ranks that issued different collectives where they should have issued the same
// one.
inline constexpr const char* kMismatched = "mismatched_collectives";
Findings& operator+=(Findings& all, Findings more);

// The diagnosis behind the name of its record, with which one of compared rows begins; else all.
std::string without_record(const Finding& finding);

// Moves all but the first line of the diagnosis to the details: an exception that it quotes may
// have several. Returns whether it had.
bool keep_first_line(Finding& finding);

struct Verdict {
  // In order of precedence: where several hold, the first in this list is the verdict.
  enum class Kind { crash, hang, leak, fail, inconclusive, refused, pass };
  Kind kind = Kind::pass;
  Findings findings;  // of the verdict's own kind; empty for a pass

  // Distinguishes failures whatever the numbers: "fail: RULE [pattern]". Empty for a pass.
  std::string signature() const;
  bool operator==(const Verdict&) const = default;
};
std::string_view name_of(Verdict::Kind kind);

// The findings beside the first whose pattern explains what is seen, and that none before shows.
// Where each step is judged from what the ranks held before it, these are further mistakes.
Findings other_explanations(const Verdict& verdict);

// True if this makes the run fail: crash, hang, leak and fail.
bool is_failure(Verdict::Kind kind);

// True if a case with the verdict `other` shows the failure of one with `failure`: it ends in the
// same way, breaks the same rule first, and shows the same pattern or one that explains more.
bool shows_failure(const Verdict& other, const Verdict& failure);

}  // namespace lockstep
