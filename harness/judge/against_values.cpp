// Where the tensors of the ranks part from those of one process.
#include "harness/core/compare.h"
#include "harness/core/numbers.h"
#include "harness/core/text.h"
#include "harness/judge/against.h"
#include "harness/judge/rows.h"
#include "harness/judge/tolerance.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>

namespace lockstep::recorded {

namespace {

using Points = std::map<TensorPoint, const Digests*>;

// One point of all runs.
struct PointRow {
  TensorPoint point;
  std::vector<const Digests*> by_rank, moved;
  const Digests* one = nullptr;
  const Digests* before = nullptr;  // one process, a step earlier
};

const Digests* found_in(const Points& points, const TensorPoint& point) {
  const auto found = points.find(point);
  return found == points.end() ? nullptr : found->second;
}

// The points that all runs recorded, in order.
std::vector<PointRow> point_rows(const RecordedRun& run, const OneProcess& one) {
  std::vector<Points> ranks, moved;
  for (const auto& rank : run.ranks) ranks.push_back(tensor_points(rank));
  for (const auto& each : one.moved) moved.push_back(tensor_points(each.ranks.front()));
  const auto alone = tensor_points(one.run.ranks.front());
  std::vector<PointRow> rows;
  for (const auto& [point, digests] : alone) {
    PointRow row{.point = point, .one = digests};
    for (const auto& points : ranks) row.by_rank.push_back(found_in(points, point));
    for (const auto& points : moved)
      if (const auto* is = found_in(points, point)) row.moved.push_back(is);
    auto before = point;
    const bool is_first = point.step == 0;
    before.step -= is_first ? 0 : 1;
    if (is_first) before.stage = TensorPoint::Stage::construction;
    const bool has_before = !is_first || point.stage == TensorPoint::Stage::parameters;
    if (has_before) row.before = found_in(alone, before);
    if (!row.moved.empty() &&
        std::all_of(row.by_rank.begin(), row.by_rank.end(), [](const auto* is) { return is; }))
      rows.push_back(std::move(row));
  }
  return rows;
}

// Numbers that core reads.
bool has_numbers(const std::string& dtype) {
  return element_bytes(dtype) > 0 && !dtype.starts_with("complex") && !dtype.starts_with("float8");
}

TensorValue constant(double value, const TensorValue& like, size_t count) {
  TensorValue out{"float64", like.shape, std::vector<std::byte>(count * sizeof(double))};
  for (size_t i = 0; i < count; ++i)
    std::memcpy(out.bytes.data() + i * sizeof(double), &value, sizeof(value));
  return out;
}

std::string short_number(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.2g", value);
  return text;
}

// Every rank that differs holds what `make` makes of the expected values, but for a part of the
// way there: in half precision single elements round too coarsely for more.
template <class Make>
bool nearly_hold(const Difference& is, Make make) {
  constexpr double kPart = 0.2;
  for (const auto rank : wrong_ranks(is)) {
    const auto seen = as_doubles(is.row.by_rank[rank]), wanted = as_doubles(is.expected[rank]);
    if (seen.size() != wanted.size()) return false;
    double off = 0, way = 0;
    for (size_t i = 0; i < seen.size(); ++i) {
      const double made = make(wanted[i], i);
      off += (seen[i] - made) * (seen[i] - made);
      way += (wanted[i] - made) * (wanted[i] - made);
    }
    if (!(way > 0) || !(off <= kPart * kPart * way)) return false;
  }
  return true;
}

Explanation factor_of(double factor, const Diagnosis& diagnosis) {
  return [=](const Difference& is) -> std::optional<Diagnosis> {
    if (!nearly_hold(is, [&](double wanted, size_t) { return factor * wanted; })) return {};
    return diagnosis;
  };
}

// Every rank made `factor` times the update of one process: its rate was scaled with the ranks.
Explanation update_times(double factor, const std::string& text, const TensorValue& before) {
  return [=](const Difference& is) -> std::optional<Diagnosis> {
    const auto from = as_doubles(before);
    if (from.size() != as_doubles(is.expected.front()).size()) return {};
    const auto make = [&](double wanted, size_t i) {
      return from[i] + factor * (wanted - from[i]);
    };
    if (!nearly_hold(is, make)) return {};
    return Diagnosis{"update_off_by_world", text};
  };
}

Explanations explanations_of(const PointRow& row, size_t tensor) {
  const auto world = static_cast<double>(row.by_rank.size());
  const bool has_before = row.before && row.before->list->tensors == row.one->list->tensors &&
                          !row.before->values[tensor].is_missing();
  Explanations all;
  if (row.point.stage == TensorPoint::Stage::gradients && world > 1)
    all = {
        factor_of(world, {"sum_not_average",
                          "the SUM of the ranks' gradients, not the average (every value is "
                          "world_size x too big)"}),
        factor_of(1 / world, {"divided_twice", "the average divided by the world size once more"})};
  if (row.point.stage == TensorPoint::Stage::parameters && has_before && world > 1) {
    const auto& before = row.before->elements[tensor];
    all = {update_times(world, "every update is world_size times that of one process", before),
           update_times(1 / world, "every update is that of one process divided by world_size",
                        before)};
  }
  if (has_before) all.push_back(last_steps_value({row.before->elements[tensor]}));
  return all;
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
  // Nothing where all ranks are close to one process.
  std::optional<Finding> at(const PointRow& row) {
    const auto& list = *row.one->list;
    for (const auto* digests : row.by_rank)
      if (digests->list->tensors != list.tensors)
        return Finding{"", "other_shape", place_of(row),
                       row.point.what() + ": the ranks do not have the tensors of one process"};
    const auto tolerances = tolerances_.at(row.point, *row.one, row.moved);
    std::vector<Comparison> rows;
    std::vector<size_t> tensors;
    for (size_t tensor = 0; tensor < list.tensors.size(); ++tensor) {
      if (auto finding = missing(row, tensor, place_of(row))) return finding;
      if (row.one->values[tensor].is_missing() || !has_numbers(list.tensors[tensor].dtype))
        continue;
      rows.push_back(comparison(row, tensor, tolerances[tensor].allowed()));
      tensors.push_back(tensor);
      add_nearness(rows.back(), tolerances[tensor].allowed());
    }
    ++points_;
    auto findings = equal("", rows);
    if (findings.empty()) return {};
    auto& finding = findings.front();
    finding.text = row.point.what() + ": " + finding.text;
    for (size_t at = 0; at < rows.size(); ++at)
      if (is_first_wrong(rows[at])) {
        finding.text += "\n" + tolerance_text(tolerances[tensors[at]],
                                              list.tensors[tensors[at]].dtype, row.moved.size());
        break;
      }
    return std::move(finding);
  }

  std::string compared() const {
    return counted(points_, "point") + ", at most " + short_number(100 * nearness_) +
           " % of a tolerance";
  }

 private:
  static std::string place_of(const PointRow& row) {
    const auto at = row.point.moment();
    return "step " + std::to_string(at.step) + ", " + at.phase;
  }

  static Comparison comparison(const PointRow& row, size_t tensor, double allowed) {
    const auto& is = row.one->elements[tensor];
    Comparison one{.row = {row.point.moment(), row.one->list->tensors[tensor].name, {}},
                   .expected = {is}};
    for (const auto* digests : row.by_rank) one.row.by_rank.push_back(digests->elements[tensor]);
    if (is.dtype.find("float") != std::string::npos)
      one.bounds = {constant(allowed, is, as_doubles(is).size())};
    one.explanations = [row, tensor] { return explanations_of(row, tensor); };
    return one;
  }

  static bool is_first_wrong(const Comparison& one) {
    return std::any_of(one.row.by_rank.begin(), one.row.by_rank.end(), [&](const auto& seen) {
      return !close(seen, one.expected.front(), one.bounds.empty() ? nullptr : &one.bounds.front());
    });
  }

  void add_nearness(const Comparison& one, double allowed) {
    if (!(allowed > 0)) return;
    const auto wanted = as_doubles(one.expected.front());
    for (const auto& each : one.row.by_rank) {
      const auto seen = as_doubles(each);
      for (size_t i = 0; i < std::min(seen.size(), wanted.size()); ++i)
        if (const double ratio = std::abs(seen[i] - wanted[i]) / allowed; ratio > nearness_)
          nearness_ = ratio;
    }
  }

  Tolerances tolerances_;
  double nearness_ = 0;
  size_t points_ = 0;
};

// A model with BatchNorm cannot follow one process.
std::string batch_norm_note(const RecordedRun& run) {
  for (const auto& record : run.ranks.front().records)
    if (const auto* fact = std::get_if<Fact>(&record.what);
        fact && fact->name.starts_with("model ") && fact->whole("batch_norms").value_or(0) > 0)
      return "\n" + fact->name +
             " has BatchNorm, which takes the statistics of each rank's own batch; SyncBatchNorm "
             "takes those of all ranks' batches";
  return "";
}

}  // namespace

Judgement values_follow_one_process(const RecordedRun& run, const OneProcess& one) {
  Judgement judgement;
  PointComparer comparer;
  const auto rows = point_rows(run, one);
  if (rows.empty()) return {.why_not = "no point has values both of all ranks and of one process"};
  for (const auto& row : rows)
    if (auto finding = comparer.at(row)) {
      const auto batches = batches_are_those_of_one_process(run, one);
      if (!batches.findings.empty()) finding->text += "\ncause: " + batches.findings.front().text;
      if (run.ranks.size() > 1) finding->text += batch_norm_note(run);
      judgement.findings.push_back(std::move(*finding));
      break;
    }
  judgement.compared = comparer.compared();
  return judgement;
}

}  // namespace lockstep::recorded
