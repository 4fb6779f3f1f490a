#include "harness/invariants/local_updates.h"

#include "harness/invariants/unwrapped.h"
#include "harness/verdict/ladders.h"

#include <algorithm>
#include <set>

namespace lockstep::recorded {

namespace {

bool differs(const Row& row) {
  return !row.is_whole() || difference_in(row, "").has_value();
}

// An optimizer with what it updates, and its first and last row by their places among all rows.
struct Training {
  std::string of;
  const Digests* begin;
  size_t first, last;
  bool begins_equal;
};

std::vector<Training> trainings_in(const std::vector<Row>& rows) {
  std::vector<Training> all;
  for (size_t number = 0; number < rows.size(); ++number) {
    const auto& row = rows[number];
    if (!is_optimizer(row.of)) continue;
    const auto found = std::find_if(
        all.begin(), all.end(), [&](const Training& training) { return training.of == row.of; });
    if (found != all.end())
      found->last = number;
    else if (row.is_whole())
      all.push_back({row.of, row.by_rank.front(), number, number,
                     row.at.phase != phase::kUpdate && !differs(row)});
  }
  return all;
}

// True if the second has the same tensors, and begins once the first has ended: a program may make
// its optimizer anew for each round of local updates.
bool is_followed_by(const Training& one, const Training& other) {
  return one.last < other.first && one.begin->list->tensors == other.begin->list->tensors;
}

// True if each tensor of which the ranks had other values is what one of them had: a copy, and no
// average.
bool is_copied(const Row& row, const std::vector<const Digests*>& before) {
  const auto* now = row.by_rank.front();
  if (!now || before.empty() || std::any_of(before.begin(), before.end(), [&](const Digests* is) {
        return !is || is->values.size() != now->values.size() || *is->list != *now->list;
      }))
    return false;
  bool any = false;
  for (size_t tensor = 0; tensor < now->values.size(); ++tensor) {
    const auto has_bits = [&](const auto& bits) {
      return [&, tensor](const Digests* is) { return is->values[tensor].bits == bits; };
    };
    const auto& first = before.front()->values[tensor].bits;
    if (std::all_of(before.begin(), before.end(), has_bits(first))) continue;
    if (std::none_of(before.begin(), before.end(), has_bits(now->values[tensor].bits)))
      return false;
    any = true;
  }
  return any;
}

// The group of some ranks in which this one averaged so many elements before a step; empty: none.
std::string averaging_group(const Rank& rank, int step, int64_t elements) {
  std::map<std::string, int64_t> averaged;
  for (const auto& event : rank.history.events)
    if (const auto* is = std::get_if<Collective>(&event.what);
        is && is->op == "allreduce" &&
        event.at.step + (event.at.phase == phase::kUpdate ? 1 : 0) == step)
      averaged[is->group] += is->elements;
  for (const auto& [group, sent] : averaged)
    if (group != kWorld && sent >= elements) return group;
  return "";
}

}  // namespace

bool averaged_in_groups(const RecordedRun& run, const Row& row) {
  if (!row.is_whole()) return false;
  std::map<std::string, std::vector<const Digests*>> groups;
  for (size_t rank = 0; rank < run.ranks.size(); ++rank) {
    const auto* is = row.by_rank[rank];
    groups[averaging_group(run.ranks[rank], row.at.step, elements_in(*is))].push_back(is);
  }
  return !groups.contains("") && std::all_of(groups.begin(), groups.end(), [](const auto& group) {
    return group.second.size() > 1 && all_hold_the_same(group.second);
  });
}

namespace {

bool is_the_same(const Row& row, const std::string& of) {
  return row.of == of && row.at.phase != phase::kUpdate && row.is_whole() &&
         !difference_in(row, "");
}

}  // namespace

bool is_the_same_later(const std::vector<Row>& rows, size_t at) {
  return std::any_of(rows.begin() + static_cast<std::ptrdiff_t>(at) + 1, rows.end(),
                     [&](const Row& row) { return is_the_same(row, rows[at].of); });
}

bool is_averaged_soon(const std::vector<Row>& rows, size_t at) {
  if (is_the_same_later(rows, at)) return true;
  int last = 0, most = 0;
  for (size_t other = 0; other < at; ++other) {
    if (!is_the_same(rows[other], rows[at].of)) continue;
    most = std::max(most, rows[other].at.step - last);
    last = rows[other].at.step;
  }
  return rows[at].at.step - last <= most;
}

bool takes_own_gradients(const RecordedRun& run) {
  bool any = false;
  for (const auto& row : rows_of(run, role::kGradients)) {
    if (!row.is_whole() || !is_optimizer(row.of)) continue;
    if (!difference_in(row, "")) return false;
    any = true;
  }
  return any;
}

void keep_latest(const Row& row, std::vector<const Digests*>& by_rank) {
  by_rank.resize(row.by_rank.size(), nullptr);
  for (size_t rank = 0; rank < by_rank.size(); ++rank)
    if (row.by_rank[rank]) by_rank[rank] = row.by_rank[rank];
}

bool hold_the_same(const Digests* a, const Digests* b) {
  return a && b && have_equal_bits(*a, *b) && (a->list == b->list || *a->list == *b->list);
}

bool all_hold_the_same(const std::vector<const Digests*>& by_rank) {
  return std::all_of(by_rank.begin(), by_rank.end(),
                     [&](const Digests* is) { return hold_the_same(is, by_rank.front()); });
}

size_t differing_in(const Row& row) {
  std::map<std::string, std::set<uint64_t>> bits;  // by tensor
  for (const auto* is : row.by_rank)
    for (size_t tensor = 0; is && tensor < is->values.size(); ++tensor)
      bits[is->list->tensors[tensor].name].insert(is->values[tensor].bits);
  return static_cast<size_t>(std::count_if(
      bits.begin(), bits.end(), [](const auto& each) { return each.second.size() > 1; }));
}

std::vector<std::string> unlike_the_first(const Row& row) {
  std::vector<std::string> names;
  const auto& first = *row.by_rank.front();
  for (size_t i = 0; i < first.values.size(); ++i)
    if (std::ranges::any_of(row.by_rank, [&](const Digests* is) {
          return i >= is->values.size() || is->values[i].bits != first.values[i].bits;
        }))
      names.push_back(first.list->tensors[i].name);
  return names;
}

std::map<std::string, Moment> averaged_between_updates(const RecordedRun& run) {
  std::set<std::pair<std::string, int>> own;  // lists, and steps in which the gradients differ
  for (const auto& row : rows_of(run, role::kGradients))
    if (row.is_whole() && difference_in(row, "")) own.emplace(row.of, row.at.step);
  for (const auto& row :
       rows_of(run, role::kTaken))  // which the program averaged after the backward
    if (row.is_whole() && !difference_in(row, "")) own.erase({row.of, row.at.step});
  std::map<std::string, Moment> differing, averaged;
  const auto rows = rows_of(run, role::kParameters);
  std::map<std::string, std::vector<const Digests*>> last;
  for (const auto& row : rows) {
    auto& held = last[row.of];
    const auto before = held;
    keep_latest(row, held);
    if (row.at.phase == phase::kUpdate && differs(row) && own.contains({row.of, row.at.step}))
      differing.try_emplace(row.of, row.at);
    if (row.at.phase == phase::kUpdate || differs(row) || is_copied(row, before)) continue;
    if (const auto found = differing.find(row.of); found != differing.end())
      averaged.insert(*found);
  }
  // Where the optimizer is made anew, the next one begins with the average; what the last round
  // left, nothing may read.
  const Training* before = nullptr;
  const auto trainings = trainings_in(rows);
  for (const auto& training : trainings) {
    const auto next = std::find_if(trainings.begin(), trainings.end(), [&](const Training& other) {
      return is_followed_by(training, other);
    });
    const bool is_averaged =
        next != trainings.end()
            ? next->begins_equal
            : before && is_followed_by(*before, training) && averaged.contains(before->of);
    before = &training;
    const auto found = differing.find(training.of);
    if (found != differing.end() && is_averaged &&
        2 * elements_averaged(run.ranks.front()) >= elements_in(*training.begin))
      averaged.insert(*found);
  }
  return averaged;
}

}  // namespace lockstep::recorded
