#include "scenarios/averaging/mistakes.h"

#include "harness/base/text.h"
#include "harness/verdict/element.h"

#include <cmath>

namespace lockstep::scenarios::averaging {

Explanation not_sent(const std::vector<TensorValue>& before) {
  return [before](const Difference& is) -> std::optional<Diagnosis> {
    std::vector<std::string> right;
    for (size_t rank = 0; rank < is.expected.size(); ++rank)
      if (is.row.by_rank[rank] == is.expected[rank]) right.push_back(std::to_string(rank));
    if (right.empty()) return {};
    return recorded_instead(
        {"not_sent", "what it was before the step; " +
                         std::string(right.size() == 1 ? "rank " : "ranks ") + joined(right, ", ") +
                         " updated it, and did not send it"},
        before)(is);
  };
}

Explanation moved_by_another_rate(const std::vector<TensorValue>& before, const std::string& of) {
  return [before, of](const Difference& is) -> std::optional<Diagnosis> {
    constexpr double kAlike = 1e-2;
    std::optional<double> factor;
    for (size_t rank = 0; rank < is.expected.size(); ++rank) {
      if (!same_shape(is.row.by_rank[rank], is.expected[rank])) return {};
      const auto seen = as_doubles(is.row.by_rank[rank]), right = as_doubles(is.expected[rank]),
                 from = as_doubles(before[rank]);
      for (size_t i = 0; i < seen.size(); ++i) {
        if (right[i] == from[i] && seen[i] == from[i]) continue;
        const double one = (seen[i] - from[i]) / (right[i] - from[i]);
        if (!factor) factor = one;
        if (!(std::abs(one - *factor) <= kAlike * std::abs(*factor))) return {};
      }
    }
    if (!factor || std::abs(*factor - 1) <= kAlike) return {};
    return Diagnosis{"another_learning_rate", "the step moved it " + number(*factor, 3) +
                                                  " x as far as that of the whole "
                                                  "optimizer: it has another learning rate" +
                                                  of};
  };
}

std::string history_of_options(const Divided& c, int step) {
  std::string out;
  if (c.slower > 0 && c.slower <= step)
    out += ", which was halved before step " + std::to_string(c.slower);
  if (resumes(c) && c.resume <= step)
    out += ", and its state was saved and loaded before step " + std::to_string(c.resume);
  return out;
}

}  // namespace lockstep::scenarios::averaging
