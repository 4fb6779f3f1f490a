#include "harness/invariants/data/numberings.h"

#include "harness/base/text.h"

#include <map>

namespace lockstep::recorded {

namespace {

// The digests of what an attribute of the dataset lists: in its order, and sorted.
struct Numbering {
  std::string ordered, sorted;
};

std::optional<Numbering> numbering_in(const Pass& pass, const std::string& name) {
  const auto all = pass.is->values.find("numbered");
  if (all == pass.is->values.end() || !all->is_object()) return {};
  const auto is = all->find(name);
  if (is == all->end() || !is->is_array() || is->size() != 2) return {};
  if (!(*is)[0].is_string() || !(*is)[1].is_string()) return {};
  return Numbering{(*is)[0].get<std::string>(), (*is)[1].get<std::string>()};
}

// True if all ranks list the same values, some of them in another order.
bool is_in_other_orders(const PassRow& row, const std::string& name) {
  std::vector<std::string> ordered, sorted;
  for (const auto& pass : row.by_rank) {
    const auto is = numbering_in(pass, name);
    if (!is) return false;
    ordered.push_back(is->ordered);
    sorted.push_back(is->sorted);
  }
  return all_alike(sorted) && !all_alike(ordered);
}

}  // namespace

std::optional<Finding> other_numbering(const PassRow& row) {
  const auto& first = row.by_rank.front().is->values;
  const auto numbered = first.find("numbered");
  if (numbered == first.end() || !numbered->is_object()) return {};
  for (const auto& [name, digests] : numbered->items()) {
    if (!is_in_other_orders(row, name)) continue;
    return Finding{
        "",
        "other_numbering",
        row.place(),
        "'" + one_line(name) + "' of the dataset in " + row.place() +
            " holds the same on all ranks, in other orders: the number of a sample, or of "
            "a class, means another one on another rank",
        {Cause{"a list or a dict that is made from a set, from os.listdir or glob, or "
               "shuffled by each rank: sort it, or shuffle it with one seed"}}};
  }
  return {};
}

std::optional<Finding> other_numbers(const std::vector<PassRow>& rows) {
  struct Sample {
    std::map<size_t, int64_t> by_rank;  // its number
    const PassRow* row;
  };
  std::map<std::pair<std::string, std::string>, Sample> samples;  // by dataset and fingerprint
  for (const auto& row : rows)
    for (size_t rank = 0; row.is_sharded() && row.all(&Pass::trains) && rank < row.by_rank.size();
         ++rank)
      for (const auto& batch : row.by_rank[rank].batches) {
        if (batch.first_index < 0) continue;
        auto& is = samples[{row.by_rank[rank].is->text("of"), batch.first_print}];
        is.row = &row;
        if (is.by_rank.try_emplace(rank, batch.first_index).first->second != batch.first_index)
          return {};  // one sample has two numbers: the dataset repeats some
      }
  std::vector<const Sample*> unlike;
  for (const auto& [key, is] : samples) {
    if (is.by_rank.size() < 2) continue;
    if (is.by_rank.begin()->second == is.by_rank.rbegin()->second) return {};
    unlike.push_back(&is);
  }
  constexpr size_t kLeast = 2;  // one may be a sample that the dataset has twice
  if (unlike.size() < kLeast) return {};
  const auto& [one, other] =
      std::pair(*unlike.front()->by_rank.begin(), *unlike.front()->by_rank.rbegin());
  return Finding{"", "other_content", unlike.front()->row->place(),
                 counted(unlike.size(), "sample") +
                     " have other numbers on other ranks, and none the same: what rank " +
                     std::to_string(one.first) + " was handed as sample " +
                     std::to_string(one.second) + " rank " + std::to_string(other.first) +
                     " was handed as sample " + std::to_string(other.second) +
                     ", so that ranks draw the same samples: sort the files, and split with one "
                     "seed"};
}

}  // namespace lockstep::recorded
