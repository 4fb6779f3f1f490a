// Where the tensors of the ranks part from those of one process.
#include "harness/base/dtype.h"
#include "harness/base/text.h"
#include "harness/invariants/against/against_causes.h"
#include "harness/invariants/against/one_without_wrapper.h"
#include "harness/invariants/against/update_counts.h"
#include "harness/invariants/rows.h"
#include "harness/recorded/tolerance.h"
#include "harness/verdict/compare.h"
#include "harness/verdict/numbers.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace lockstep::recorded {

namespace {

constexpr double kPartOfValuesMost = 0.5;  // of a tolerance that still says something
constexpr double kNearnessMost = 0.3;      // of a tolerance, that one moved run measures well

// Real numbers, as `as_doubles` reads them.
bool has_numbers(const std::string& dtype) {
  const auto traits = traits_of(dtype);
  return traits.kind == NumberKind::whole || traits.precision_bits > 0;
}

TensorValue constant(double value, const TensorValue& like, size_t count) {
  TensorValue out{"float64", like.shape, std::vector<std::byte>(count * sizeof(double))};
  for (size_t i = 0; i < count; ++i)
    std::memcpy(out.bytes.data() + i * sizeof(double), &value, sizeof(value));
  return out;
}

// A gradient that exists on one side alone.
std::optional<Finding> missing(const PointRow& row, size_t tensor, const std::string& where) {
  const bool here = !row.by_rank.front()->values[tensor].is_missing();
  const bool there = !row.one->values[tensor].is_missing();
  if (here == there) return {};
  return Finding{"", "missing_on_one_side", where,
                 row.point.what() + ": " + row.one->list->tensors[tensor].name + " has one " +
                     (here ? "on the ranks and none" : "in one process and none") +
                     (here ? " in one process" : " on the ranks")};
}

std::string tolerance_text(const Tolerance& is, const std::string& dtype, size_t moved_runs) {
  return "tolerance " + short_number(is.allowed()) + ", " +
         std::to_string(static_cast<int>(kToleranceFactor)) +
         " times the largest of: " + short_number(is.moved) +
         ", by which it moved with the inputs and parameters of one process; " +
         short_number(is.typical) + ", had it moved as all tensors here did together; " +
         short_number(is.stored) + ", the bound of storing it in " + dtype + "; measured in " +
         counted(moved_runs, "moved run");
}

// Compares the tensors of points one after the other.
class PointComparer {
 public:
  explicit PointComparer(const OneProcess& one) : one_(one) {}

  // Nothing where all ranks are close to one process, or where it has ended.
  std::optional<Finding> at(const PointRow& row, const StepCounts& counts) {
    const auto& list = *row.one->list;
    for (const auto* digests : row.by_rank)
      if (digests->list->tensors != list.tensors)
        return Finding{"", "other_shape", place_of(row),
                       row.point.what() + ": the ranks do not have the tensors of one process"};
    const auto tolerances = tolerances_.at(row.point, *row.one, row.moved);
    if (part_of_values(*row.one, tolerances) > kPartOfValuesMost) {
      wide_at_ = place_of(row);
      wide_ = part_of_values(*row.one, tolerances);
      return {};
    }
    std::vector<Comparison> rows;
    std::vector<size_t> tensors;
    for (size_t tensor = 0; tensor < list.tensors.size(); ++tensor) {
      if (auto finding = missing(row, tensor, place_of(row))) return finding;
      if (row.one->values[tensor].is_missing() || !has_numbers(list.tensors[tensor].dtype))
        continue;
      rows.push_back(comparison(row, tensor, tolerances[tensor].allowed(), counts));
      tensors.push_back(tensor);
      add_nearness(rows.back(), tolerances[tensor].allowed(), place_of(row));
    }
    ++points_;
    gradients_ += row.point.stage == TensorPoint::Stage::gradients ? 1 : 0;
    auto findings = equal("", rows);
    if (findings.empty()) return {};
    auto& finding = findings.front();
    finding.diagnosis = row.point.what() + ": " + finding.diagnosis;
    for (size_t at = 0; at < rows.size(); ++at)
      if (is_first_wrong(rows[at])) {
        finding.details.push_back(tolerance_text(
            tolerances[tensors[at]], list.tensors[tensors[at]].dtype, row.moved.size()));
        break;
      }
    return std::move(finding);
  }

  std::string compared() const {
    return counted(points_, "point") + ", at most " + short_number(100 * nearness_) +
           " % of a tolerance" + (has_ended() ? ", up to " + *wide_at_ : "");
  }

  // From some point on rounding alone may move a tensor by a large part of itself.
  bool has_ended() const { return wide_at_.has_value(); }
  bool compared_gradients() const { return gradients_ > 0; }
  Finding too_wide() const {
    return {"", "tolerance_too_wide", *wide_at_,
            "the tolerance is " + short_number(100 * wide_) + " % of the values in " + *wide_at_ +
                ", so that a comparison says nothing: rounding alone moves this program that far, "
                "or its runs do not do the same"};
  }
  Findings remarks() const {
    if (!(nearness_ > kNearnessMost)) return {};
    return {{"", "near_the_tolerance", nearest_at_,
             "the ranks are within " + short_number(100 * nearness_) +
                 " % of a tolerance, which few moved runs measure roughly: record one more, with "
                 "LOCKSTEP_RECORD_PERTURB=" +
                 std::to_string(one_.moved.size() + 1)}};
  }

 private:
  static std::string place_of(const PointRow& row) {
    const auto at = row.point.moment();
    return "step " + std::to_string(at.step) + ", " + at.phase;
  }

  // How large the tolerances of all tensors together are beside their largest elements.
  static double part_of_values(const Digests& is, const std::vector<Tolerance>& tolerances) {
    double allowed = 0, size = 0;
    for (size_t tensor = 0; tensor < tolerances.size(); ++tensor) {
      if (is.values[tensor].is_missing() || tolerances[tensor].stored == 0) continue;
      double largest = 0;
      for (const double value : as_doubles(is.elements[tensor]))
        largest = std::max(largest, std::abs(value));
      allowed += tolerances[tensor].allowed() * tolerances[tensor].allowed();
      size += largest * largest;
    }
    return size > 0 ? std::sqrt(allowed / size) : 0;
  }

  static Comparison comparison(const PointRow& row, size_t tensor, double allowed,
                               const StepCounts& counts) {
    const auto& is = row.one->elements[tensor];
    Comparison one{.row = {row.point.moment(), row.one->list->tensors[tensor].name, {}},
                   .expected = {is}};
    for (const auto* digests : row.by_rank) one.row.by_rank.push_back(digests->elements[tensor]);
    if (traits_of(is.dtype).kind == NumberKind::floating)
      one.bounds = {constant(allowed, is, as_doubles(is).size())};
    one.explanations = [row, tensor, counts] { return explanations_of(row, tensor, counts); };
    return one;
  }

  static bool is_first_wrong(const Comparison& one) {
    return std::any_of(one.row.by_rank.begin(), one.row.by_rank.end(), [&](const auto& seen) {
      return !close(seen, one.expected.front(), one.bounds.empty() ? nullptr : &one.bounds.front());
    });
  }

  void add_nearness(const Comparison& one, double allowed, const std::string& where) {
    if (!(allowed > 0)) return;
    const auto wanted = as_doubles(one.expected.front());
    for (const auto& each : one.row.by_rank) {
      const auto seen = as_doubles(each);
      for (size_t i = 0; i < std::min(seen.size(), wanted.size()); ++i)
        if (const double ratio = std::abs(seen[i] - wanted[i]) / allowed; ratio > nearness_) {
          nearness_ = ratio;
          nearest_at_ = where + ", " + one.row.name;
        }
    }
  }

  const OneProcess& one_;
  Tolerances tolerances_;
  double nearness_ = 0, wide_ = 0;
  std::string nearest_at_;
  std::optional<std::string> wide_at_;
  size_t points_ = 0, gradients_ = 0;
};

// True if a moved run held everywhere what the run beside it did.
bool moved_nothing(const std::vector<PointRow>& rows) {
  return std::all_of(rows.begin(), rows.end(), [](const PointRow& row) {
    return std::all_of(row.moved.begin(), row.moved.end(), [&](const Digests* moved) {
      return std::equal(moved->elements.begin(), moved->elements.end(), row.one->elements.begin(),
                        row.one->elements.end(), [](const TensorValue& a, const TensorValue& b) {
                          return a.bytes == b.bytes;
                        });
    });
  });
}

Judgement judged_at(const std::vector<PointRow>& rows, const RecordedRun& run,
                    const OneProcess& one) {
  Judgement judgement;
  if (rows.empty()) return not_covered("no point has values both of all ranks and of one process");
  if (auto text = other_beginning(rows); !text.empty()) {
    judgement.findings.push_back(
        {"", "begins_with_other_parameters", "step 0, construction", text});
    judgement.is_certain = false;
    return judgement;
  }
  if (moved_nothing(rows)) {
    judgement.findings.push_back(
        {"", "moved_nothing", "",
         "the moved run of one process held what the other did, to the last bit, so that nothing "
         "says how far rounding goes: a recorder moves what is in a wrapper or an optimizer of "
         "PyTorch's, or what lockstep_recorder.watch(model) named before the first forward"});
    judgement.is_certain = false;
    return judgement;
  }
  PointComparer comparer(one);
  const StepCounter counter(run, one.run);
  for (const auto& row : rows) {
    const auto counts = counter.at(row);
    if (auto finding = comparer.at(row, counts)) {
      add_causes(*finding, row, counts, run, one);
      judgement.is_certain = finding->pattern != "drops_units";
      judgement.add(Found{std::move(*finding), row.point.moment()});
      break;
    }
    if (comparer.has_ended()) break;
  }
  if (judgement.findings.empty() && comparer.has_ended() && !comparer.compared_gradients()) {
    judgement.findings.push_back(comparer.too_wide());
    judgement.is_certain = false;
  } else if (judgement.findings.empty()) {
    judgement.remarks = comparer.remarks();
    add_update_counts(judgement, run, one);
  }
  judgement.compared = comparer.compared();
  return judgement;
}

}  // namespace

Judgement values_follow_one_process(const RecordedRun& run, const OneProcess& one) {
  const auto renamed = with_names_of_ranks(one, run);
  const auto& beside = renamed ? renamed->one : one;
  const auto by_update = renamed ? renamed->models : std::set<std::string>();
  return judged_at(point_rows(run, beside, by_update), run, beside);
}

}  // namespace lockstep::recorded
