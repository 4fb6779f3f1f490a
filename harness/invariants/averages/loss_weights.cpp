#include "harness/invariants/averages/loss_weights.h"

#include "harness/base/text.h"
#include "harness/invariants/against/against_causes.h"
#include "harness/invariants/rows.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

namespace lockstep::recorded {

namespace {

// An average or a sum in a loss: what one of its terms counts there.
struct Part {
  std::string function;
  int64_t terms = 0;  // 0: a sum
  double weight = 1;  // of the whole in the loss; NaN where it is unknown
  double of_a_term() const { return terms > 0 ? weight / static_cast<double>(terms) : weight; }
};

// A digest of the weights that the rank's losses give to classes; one a backward that has any.
std::vector<std::pair<Moment, std::string>> classes_of(const Rank& rank) {
  std::vector<std::pair<Moment, std::string>> all;
  for (const auto& record : rank.records)
    if (const auto* fact = fact_in(record, fact::kTerms);
        fact && !fact->text("classes").empty() &&
        (all.empty() || comes_before(all.back().first, record.at)))
      all.emplace_back(record.at, fact->text("classes"));
  return all;
}

struct Backward {
  Moment at;
  std::vector<Part> parts;
};

// By model; of backwards whose losses have such parts.
std::map<std::string, std::vector<Backward>> backwards_of(const Rank& rank) {
  std::map<std::string, std::vector<Backward>> all;
  std::vector<Part> parts;
  for (const auto& record : rank.records) {
    const auto* fact = std::get_if<Fact>(&record.what);
    if (!fact) continue;
    if (fact->name == fact::kTerms)
      parts.push_back({fact->text("function"), fact->whole("terms").value_or(0),
                       fact->number("weight").value_or(std::nan(""))});
    if (fact->name == fact::kBackward)
      all[fact->text("model")].push_back({record.at, std::exchange(parts, {})});
    if (is_optimizer(fact->name)) parts.clear();
  }
  return all;
}

// Whether the ranks average over the same numbers of terms; sums have none.
bool have_alike_terms(const std::vector<const Backward*>& ranks) {
  const auto& first = ranks.front()->parts;
  for (const auto* rank : ranks)
    for (size_t at = 0; at < first.size(); ++at)
      if (first[at].terms == 0 || rank->parts[at].terms != first[at].terms) return false;
  return true;
}

double whole_weight(const Backward& backward) {
  double weight = 0;
  for (const auto& part : backward.parts) weight += part.weight;
  return weight;
}

// Whether the losses are made of the same functions, in one order.
bool have_the_same_parts(const std::vector<const Backward*>& ranks) {
  const auto& first = ranks.front()->parts;
  return std::all_of(ranks.begin(), ranks.end(), [&](const Backward* rank) {
    return std::equal(rank->parts.begin(), rank->parts.end(), first.begin(), first.end(),
                      [](const Part& a, const Part& b) { return a.function == b.function; });
  });
}

// "nll_loss over 4 terms and 0.025 x mean over 16 terms".
std::string parts_text(const Backward& backward) {
  std::vector<std::string> texts;
  for (const auto& part : backward.parts) {
    const bool is_plain = std::isnan(part.weight) || !differ(part.weight, 1);
    texts.push_back((is_plain ? "" : short_number(part.weight) + " x ") + part.function +
                    (part.terms > 0 ? " over " + counted(part.terms, "term") : ""));
  }
  return texts.empty() ? "neither an average nor a sum of PyTorch's" : joined(texts, " and ");
}

Finding other_losses(const std::vector<const Backward*>& ranks) {
  std::vector<std::string> texts;
  for (const auto* rank : ranks) texts.push_back(parts_text(*rank));
  const auto place = "step " + std::to_string(ranks.front()->at.step) + ", backward";
  return {"",
          "other_losses",
          place,
          "the losses of the ranks are made of other parts, in " + place + ": " +
              values_text(texts) +
              ". The average over the ranks is then of gradients of two losses",
          {"right where each rank has a task of its own; usual where one rank alone has another "
           "option of the loss, such as label_smoothing or reduction"}};
}

// The first part of which a term counts unlike on the ranks, of losses of the same parts; the
// number of parts where there is none, or where each rank mixes losses of its own batch (mixup)
// that have one weight together.
size_t first_unlike(const std::vector<const Backward*>& ranks) {
  const auto& first = ranks.front()->parts;
  bool is_mixed = true;
  for (const auto* rank : ranks)
    is_mixed = is_mixed && !differ(whole_weight(*rank), whole_weight(*ranks.front()));
  if (is_mixed && have_alike_terms(ranks)) return first.size();
  for (size_t at = 0; at < first.size(); ++at)
    for (const auto* rank : ranks)
      if (differ(first[at].of_a_term(), rank->parts[at].of_a_term())) return at;
  return first.size();
}

Finding weighted_by_rank(const std::vector<const Backward*>& ranks) {
  std::vector<std::string> texts;
  for (const auto* rank : ranks) texts.push_back(short_number(whole_weight(*rank)));
  const auto place = "step " + std::to_string(ranks.front()->at.step) + ", backward";
  return {"",
          "weighted_by_rank",
          place,
          "each rank multiplies its loss by a number of its own, in " + place + ": " +
              values_text(texts) +
              ". The average over the ranks counts the samples of one more than those of another",
          {"usual where a rank counts in its own part of the data what one process counts in all, "
           "or divides by a number of batches of its own. The cure: one number on all ranks"}};
}

// At the part `at` of the losses.
Finding average_of_averages(const std::vector<const Backward*>& ranks, size_t at) {
  std::vector<std::string> texts;
  const bool is_sum = ranks.front()->parts[at].terms == 0;
  for (const auto* rank : ranks)
    texts.push_back(is_sum ? short_number(1 / rank->parts[at].weight)
                           : counted(rank->parts[at].terms, "term"));
  const auto place = "step " + std::to_string(ranks.front()->at.step) + ", backward";
  return {
      "",
      "average_of_averages",
      place,
      (is_sum
           ? "each rank divides the sum in its loss by a number of its own, in " + place + " by: "
           : "each rank averages its loss over its own number of terms, in " + place + ": ") +
          values_text(texts) +
          ". The average over the ranks counts a term of one more than one of another, where "
          "one process counts all alike",
      {"usual in trainings on texts of unlike lengths. The cure: sum the loss of each rank, "
       "divide by the number of terms of all ranks (an all-reduce), and multiply by the "
       "number of ranks, by which DistributedDataParallel divides"}};
}

}  // namespace

std::optional<Finding> classes_weighed_unlike(const RecordedRun& run) {
  const auto first = classes_of(run.ranks.front());
  std::set<size_t> backwards;
  for (const auto& rank : run.ranks) {
    const auto other = classes_of(rank);
    for (size_t at = 0; at < std::min(first.size(), other.size()); ++at)
      if (other[at].second != first[at].second) backwards.insert(at);
  }
  const auto unlike = backwards.size();
  if (unlike < 2 || 2 * unlike < first.size()) return {};
  return Finding{
      "",
      "classes_weighed_unlike",
      "step " + std::to_string(first.front().first.step) + ", backward",
      "the losses of the ranks weigh the classes unlike, in " + std::to_string(unlike) + " of " +
          counted(first.size(), "backward"),
      {"usual where each rank counts the classes in its own part of the data, or in its "
       "own batch. The cure: count them in the whole dataset, or send rank 0's weights"}};
}

std::optional<Finding> labels_without_offset(const RecordedRun& run) {
  constexpr size_t kBackwardsLeast = 2;
  std::optional<Moment> first;
  for (const auto& rank : run.ranks) {
    size_t backwards = 0;
    for (const auto& record : rank.records)
      if (const auto* fact = fact_in(record, fact::kTerms);
          fact && fact->text("function") == "nll_loss") {
        if (fact->text("labels") != "first") return {};  // classes that happen to be so
        ++backwards;
        if (!first) first = record.at;
      }
    if (backwards < kBackwardsLeast) return {};
  }
  const auto place = "step " + std::to_string(first->step) + ", backward";
  return Finding{"",
                 "labels_without_offset",
                 place,
                 "the labels of a loss over the features of all ranks are 0, 1, 2 and so on, on "
                 "every rank, in " +
                     place +
                     ": right where each rank puts its own features first; in the order of the "
                     "ranks they name the features of rank 0",
                 {"the cure: add rank times the size of a rank's batch to the labels"}};
}

Findings terms_weighed_unlike(const RecordedRun& run, size_t& backwards) {
  std::vector<std::map<std::string, std::vector<Backward>>> all;
  for (const auto& rank : run.ranks) all.push_back(backwards_of(rank));
  struct Unlike {
    size_t backwards = 0;
    std::optional<Finding> first;
  } terms, losses;
  for (const auto& [model, of_first] : all.front())
    for (size_t number = 0; number < of_first.size(); ++number) {
      std::vector<const Backward*> ranks;
      for (const auto& rank : all)
        if (const auto found = rank.find(model);
            found != rank.end() && number < found->second.size())
          ranks.push_back(&found->second[number]);
      const bool any_part = std::any_of(ranks.begin(), ranks.end(),
                                        [](const Backward* is) { return !is->parts.empty(); });
      if (ranks.size() < all.size() || !any_part) continue;
      ++backwards;
      if (!have_the_same_parts(ranks)) {
        ++losses.backwards;
        if (!losses.first) losses.first = other_losses(ranks);
        continue;
      }
      const auto at = first_unlike(ranks);
      if (at == of_first[number].parts.size()) continue;
      ++terms.backwards;
      if (!terms.first)
        terms.first =
            have_alike_terms(ranks) ? weighted_by_rank(ranks) : average_of_averages(ranks, at);
    }
  Findings remarks;
  for (auto* unlike : {&terms, &losses}) {
    // Batches of unlike sizes at the end of a pass are no habit.
    if (unlike->backwards < 2 || 2 * unlike->backwards < backwards) continue;
    auto& details = unlike->first->details;
    details.insert(details.begin(), "so in " + std::to_string(unlike->backwards) + " of " +
                                        counted(backwards, "backward"));
    remarks.push_back(std::move(*unlike->first));
  }
  return remarks;
}

}  // namespace lockstep::recorded
