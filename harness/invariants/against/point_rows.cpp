#include "harness/invariants/against/point_rows.h"

#include "harness/base/dtype.h"
#include "harness/recorded/divided.h"
#include "harness/verdict/compare.h"
#include "harness/verdict/numbers.h"

#include <algorithm>

namespace lockstep::recorded {

namespace {

using Points = std::map<TensorPoint, const Digests*>;

const Digests* found_in(const Points& points, const TensorPoint& point) {
  const auto found = points.find(point);
  return found == points.end() ? nullptr : found->second;
}

// The point one step earlier; after the first update, that after construction.
std::optional<TensorPoint> point_before(TensorPoint point) {
  if (point.step > 0) {
    --point.step;
    return point;
  }
  if (point.stage != TensorPoint::Stage::parameters) return {};
  point.stage = TensorPoint::Stage::construction;
  return point;
}

// All ranks of a run at each point, where what is divided is put together. The wholes stay in
// `wholes`.
class RankPoints {
 public:
  RankPoints(const RecordedRun& run, std::deque<Digests>& wholes,
             const std::set<std::string>& by_update = {})
      : wholes_(wholes) {
    for (const auto& rank : run.ranks) {
      points_.push_back(tensor_points(rank, by_update));
      shards_.push_back(shards_of(rank));
    }
  }

  std::vector<TensorPoint> points() const {
    std::vector<TensorPoint> all;
    for (const auto& [point, digests] : points_.front()) all.push_back(point);
    return all;
  }

  // Empty where a rank lacks the point, or a part of a tensor is missing.
  std::vector<const Digests*> at(const TensorPoint& point) {
    std::vector<const Digests*> by_rank;
    for (const auto& each : points_) by_rank.push_back(found_in(each, point));
    if (std::any_of(by_rank.begin(), by_rank.end(), [](const auto* is) { return !is; })) return {};
    const auto parts = parts_of(point.of);
    if (parts.empty()) return by_rank;
    auto whole = whole_of(by_rank, parts, whole_list(by_rank, parts));
    if (!whole) return {};
    wholes_.push_back(std::move(*whole));
    return std::vector<const Digests*>(points_.size(), &wholes_.back());
  }

 private:
  std::vector<Shards> parts_of(const std::string& of) const {
    std::vector<Shards> parts;
    bool any = false;
    for (const auto& all : shards_) {
      const auto found = all.find(of);
      parts.push_back(found == all.end() ? Shards() : found->second);
      any = any || !parts.back().empty();
    }
    return any ? parts : std::vector<Shards>();
  }

  // The first rank's list, with the shapes of the wholes, by name.
  static TensorList whole_list(const std::vector<const Digests*>& by_rank,
                               const std::vector<Shards>& parts) {
    std::map<std::string, TensorList::Entry> entries;
    for (size_t rank = 0; rank < by_rank.size(); ++rank)
      for (const auto& tensor : by_rank[rank]->list->tensors) {
        auto entry = tensor;
        if (const auto found = parts[rank].find(tensor.name); found != parts[rank].end())
          entry.shape = found->second.whole;
        if (entry.dtype.empty() && entries.contains(entry.name)) continue;  // it has none here
        entries[entry.name] = entry;
      }
    TensorList list{.of = by_rank.front()->list->of, .role = by_rank.front()->list->role};
    for (auto& [name, entry] : entries) list.tensors.push_back(std::move(entry));
    return list;
  }

  std::deque<Digests>& wholes_;
  std::vector<Points> points_;
  std::vector<std::map<std::string, Shards>> shards_;
};

// The tensors of `is` in the order of `like`; null where they are others.
const Digests* in_order_of(const TensorList& like, const Digests* is, std::deque<Digests>& wholes) {
  if (is->list->tensors == like.tensors) return is;
  Digests ordered;
  for (const auto& tensor : like.tensors) {
    const auto& all = is->list->tensors;
    const auto found = std::find(all.begin(), all.end(), tensor);
    if (found == all.end() || all.size() != like.tensors.size()) return is;
    const auto place = static_cast<size_t>(found - all.begin());
    ordered.values.push_back(is->values[place]);
    ordered.elements.push_back(is->elements[place]);
  }
  auto list = *is->list;
  list.tensors = like.tensors;
  ordered.list = std::make_shared<const TensorList>(std::move(list));
  wholes.push_back(std::move(ordered));
  return &wholes.back();
}

// Elements that are at most one unit in the last place away.
bool are_near(const TensorValue& a, const TensorValue& b) {
  if (a.bytes == b.bytes) return true;
  const auto x = as_doubles(a), y = as_doubles(b);
  if (x.size() != y.size() || a.dtype != b.dtype) return false;
  for (size_t i = 0; i < x.size(); ++i)
    if (ulp_distance(x[i], y[i], a.dtype) > 1) return false;
  return true;
}

bool are_all_near(const Digests& a, const Digests& b) {
  if (a.list->tensors != b.list->tensors) return false;
  for (size_t tensor = 0; tensor < a.elements.size(); ++tensor)
    if (traits_of(a.list->tensors[tensor].dtype).kind == NumberKind::floating &&
        !are_near(a.elements[tensor], b.elements[tensor]))
      return false;
  return true;
}

bool are_equal(const Digests& a, const Digests& b) {
  if (a.list->tensors != b.list->tensors) return true;  // which is a finding of its own
  for (size_t tensor = 0; tensor < a.elements.size(); ++tensor)
    if (a.elements[tensor].bytes != b.elements[tensor].bytes) return false;
  return true;
}

}  // namespace

std::vector<PointRow> point_rows(const RecordedRun& run, const OneProcess& one,
                                 const std::set<std::string>& by_update) {
  const auto wholes = std::make_shared<std::deque<Digests>>();
  RankPoints ranks(run, *wholes, by_update), alone(one.run, *wholes);
  std::vector<RankPoints> moved;
  for (const auto& each : one.moved) moved.emplace_back(each, *wholes);
  std::map<TensorPoint, const Digests*> of_one;
  std::vector<PointRow> rows;
  for (const auto& point : alone.points()) {
    const auto is = alone.at(point);
    if (is.empty()) continue;
    PointRow row{.point = point, .one = is.front(), .wholes = wholes};
    of_one[point] = row.one;
    for (auto& each : moved)
      if (const auto found = each.at(point); !found.empty())
        row.moved.push_back(in_order_of(*row.one->list, found.front(), *wholes));
    if (const auto before = point_before(point)) row.before = found_in(of_one, *before);
    for (const auto* digests : ranks.at(point))
      row.by_rank.push_back(in_order_of(*row.one->list, digests, *wholes));
    if (!row.moved.empty() && !row.by_rank.empty()) rows.push_back(std::move(row));
  }
  return rows;
}

std::string other_beginning(const std::vector<PointRow>& rows) {
  for (const auto& row : rows) {
    if (row.point.stage != TensorPoint::Stage::construction || row.point.step > 0) continue;
    for (const auto* moved : row.moved)
      if (!are_all_near(*row.one, *moved))
        return "the two runs of one process begin with other parameters: seed the program";
    for (const auto* digests : row.by_rank)
      if (!are_equal(*row.one, *digests))
        return "the ranks begin with other parameters than one process: seed the program, with "
               "one seed for all runs";
  }
  return "";
}

}  // namespace lockstep::recorded
