// Findings of checks, and the verdict that a judge makes of them.
#pragma once

#include "harness/history/history.h"

namespace lockstep {

// How much a pattern explains: which ranks differ; a relation between the numbers; or what a known
// mistake would do, as every pattern does that is neither.
enum class Specificity { which_ranks, relation, explanation };

// One broken rule, as shown by one history. `rule` is the sentence that does not hold; `pattern`
// names what the numbers show ("sum_not_average"), or is empty; `where` is the first place; `text`
// is the diagnosis, one line, then any table that shows it.
struct Finding {
  std::string rule, pattern, where, text;
  Specificity specificity = Specificity::explanation;  // of the pattern
  bool operator==(const Finding&) const = default;
};
using Findings = std::vector<Finding>;
Findings& operator+=(Findings& all, Findings more);

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

// True if this makes the run fail: crash, hang, leak and fail.
bool is_failure(Verdict::Kind kind);

// True if a case with the verdict `other` shows the failure of one with `failure`: it ends in the
// same way, breaks the same rule first, and shows the same pattern or one that explains more.
bool shows_failure(const Verdict& other, const Verdict& failure);

}  // namespace lockstep
