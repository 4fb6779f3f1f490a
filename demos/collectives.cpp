// The six collectives with one number a rank: what each rank holds before and after.
//
// They run on the world's own process group; what a rank does not receive it records as no number.
#include "demos/make.h"
#include "harness/rank/rank_context.h"
#include "harness/verdict/compare.h"

#include <torch/torch.h>

#include <algorithm>
#include <numeric>

namespace lockstep::demos::collectives {

namespace {

constexpr char kOtherRoot[] = "other_root", kOneSkips[] = "one_rank_skips";

enum class Operation { sum, max, min };

struct Settings {
  int world = 4;
  int root = 0;
  Operation operation = Operation::sum;
  auto operator<=>(const Settings&) const = default;
  static constexpr auto fields() {
    return std::tuple{field("world", &Settings::world, between(2, 8)),
                      field("root", &Settings::root, between(0, 7)),
                      field("operation", &Settings::operation)};
  }
};
using CollectivesCase = Staged<Settings>;
using Numbers = std::vector<int64_t>;

const std::vector<std::string> kNames{"broadcast",  "scatter", "gather",
                                      "all-gather", "reduce",  "all-reduce"};

c10d::ReduceOp operation_of(const CollectivesCase& c) {
  if (c.settings.operation == Operation::max) return c10d::ReduceOp::MAX;
  return c.settings.operation == Operation::min ? c10d::ReduceOp::MIN : c10d::ReduceOp::SUM;
}

// The number of rank r is r + 1; the root of a scatter has all of them.
Numbers all_numbers(int world) {
  Numbers numbers(static_cast<size_t>(world));
  std::iota(numbers.begin(), numbers.end(), 1);
  return numbers;
}

Numbers before(const CollectivesCase& c, size_t collective, int rank) {
  if (kNames[collective] != "scatter") return {rank + 1};
  return rank == c.settings.root ? all_numbers(c.world.size) : Numbers{};
}

Numbers numbers_in(const std::vector<at::Tensor>& tensors) {
  Numbers numbers;
  for (const auto& tensor : tensors) numbers.push_back(tensor.item<int64_t>());
  return numbers;
}

std::vector<at::Tensor> tensors_of(const Numbers& numbers) {
  std::vector<at::Tensor> tensors;
  for (const auto number : numbers) tensors.push_back(torch::full({1}, number, at::kLong));
  return tensors;
}

// Runs one collective, and returns what this rank has received.
Numbers ran(const CollectivesCase& c, RankContext& here, size_t collective) {
  const auto& name = kNames[collective];
  const int root = c.mistake == kOtherRoot && here.rank() == here.size() - 1 && name == "broadcast"
                       ? (c.settings.root + 1) % here.size()
                       : c.settings.root;
  const bool is_root = here.rank() == root;
  const auto group = here.group();
  auto own = tensors_of({here.rank() + 1});
  auto all = tensors_of(Numbers(static_cast<size_t>(here.size()), 0));
  std::vector<std::vector<at::Tensor>> lists;
  if (name == "broadcast") {
    c10d::BroadcastOptions options;
    options.rootRank = root;
    group->broadcast(own, options)->wait();
    return numbers_in(own);
  }
  if (name == "scatter") {
    if (is_root) lists = {tensors_of(all_numbers(here.size()))};
    c10d::ScatterOptions options;
    options.rootRank = root;
    group->scatter(own, lists, options)->wait();
    return numbers_in(own);
  }
  if (name == "gather") {
    if (is_root) lists = {all};
    c10d::GatherOptions options;
    options.rootRank = root;
    group->gather(lists, own, options)->wait();
    return is_root ? numbers_in(all) : Numbers{};
  }
  if (name == "all-gather") {
    lists = {all};
    group->allgather(lists, own)->wait();
    return numbers_in(all);
  }
  if (name == "reduce") {
    c10d::ReduceOptions options;
    options.reduceOp = operation_of(c);
    options.rootRank = root;
    group->reduce(own, options)->wait();
    return is_root ? numbers_in(own) : Numbers{};
  }
  c10d::AllreduceOptions options;
  options.reduceOp = operation_of(c);
  group->allreduce(own, options)->wait();
  return numbers_in(own);
}

void program(const CollectivesCase& c, RankContext& here) {
  for (size_t i = 0; i < kNames.size(); ++i) {
    const auto at = static_cast<int>(i);
    here.enter(at, "before");
    here.record(kNames[i], before(c, i, here.rank()));
    if (c.mistake == kOneSkips && i + 1 == kNames.size() && here.rank() == here.size() - 1) return;
    const auto received = ran(c, here, i);
    here.enter(at, "after");
    here.record(kNames[i], received);
  }
}

// Returns the numbers that the definition of a collective gives each rank.
Numbers right(const CollectivesCase& c, size_t collective, int rank) {
  const auto numbers = all_numbers(c.world.size);
  const auto operation = c.settings.operation;
  const int64_t reduced = operation == Operation::max ? numbers.back()
                          : operation == Operation::min
                              ? numbers.front()
                              : std::accumulate(numbers.begin(), numbers.end(), int64_t{0});
  const auto& name = kNames[collective];
  const bool is_root = rank == c.settings.root;
  if (name == "broadcast") return {c.settings.root + 1};
  if (name == "scatter") return {rank + 1};
  if (name == "all-gather" || (name == "gather" && is_root)) return numbers;
  if (name == "all-reduce" || (name == "reduce" && is_root)) return {reduced};
  return {};
}

Findings ranks_hold_what_the_definition_gives(const CollectivesCase& c, const History& h) {
  std::vector<Comparison> rows;
  for (size_t i = 0; i < kNames.size(); ++i) {
    rows.push_back({.row = h.row({static_cast<int>(i), "after"}, kNames[i]), .expected = {}});
    for (int rank = 0; rank < c.world.size; ++rank)
      rows.back().expected.push_back(int64_values(right(c, i, rank)));
  }
  return equal("Every rank must hold what the definition of the collective gives it", rows);
}

// Names the ranks that received what `name` gives: "all 4 ranks", "rank 0 alone".
std::string receivers(const CollectivesCase& c, const History& h, const std::string& name) {
  const auto i = static_cast<int>(std::find(kNames.begin(), kNames.end(), name) - kNames.begin());
  std::vector<int> ranks;
  const auto row = h.row({i, "after"}, name);
  for (int rank = 0; rank < c.world.size; ++rank)
    if (!as_integers(row.by_rank[static_cast<size_t>(rank)]).empty()) ranks.push_back(rank);
  return who(ranks, c.world.size);
}

std::string value_of(const History& h, const std::string& name, int rank) {
  const auto i = static_cast<int>(std::find(kNames.begin(), kNames.end(), name) - kNames.begin());
  return spaced(as_integers(h.row({i, "after"}, name).by_rank[static_cast<size_t>(rank)]));
}

DemoStory show(const CollectivesCase& c, const History& h) {
  reports::Grid grid{.column_axis = "", .columns = {}, .rows = {}};
  for (int rank = 0; rank < c.world.size; ++rank)
    grid.rows.push_back({reports::rank_label(rank), {}});
  for (size_t i = 0; i < kNames.size(); ++i) {
    grid.columns.push_back({kNames[i], {"before", "after"}});
    for (const char* phase : {"before", "after"}) {
      const auto row = h.row({static_cast<int>(i), phase}, kNames[i]);
      for (size_t rank = 0; rank < row.by_rank.size(); ++rank)
        grid.rows[rank].cells.push_back({spaced(as_integers(row.by_rank[rank]))});
    }
  }
  const auto root = c.settings.root;
  const auto operation = word_of(c.settings.operation);
  DemoStory story;
  story.finding = "All-reduce leaves the " + operation + " " + value_of(h, "all-reduce", root) +
                  " on " + receivers(c, h, "all-reduce") + ", reduce on " +
                  receivers(c, h, "reduce") + "; all-gather leaves " +
                  value_of(h, "all-gather", root) + " on " + receivers(c, h, "all-gather") +
                  ", gather on " + receivers(c, h, "gather") + ".";
  story.pictures = {{.title = "What each rank holds",
                     .caption = "broadcast and scatter send what rank " + std::to_string(root) +
                                " holds; rank r receives " + value_of(h, "broadcast", 0) +
                                " from the one and its own part, r + 1, from the other",
                     .body = std::move(grid)}};
  story.question = {"Each of " + std::to_string(c.world.size) +
                        " ranks holds its rank + 1. What does rank 1 hold after an all-reduce (" +
                        operation + ")?",
                    value_of(h, "all-reduce", 1),
                    "an all-reduce combines the ranks' numbers and leaves the result on every "
                    "rank; a reduce would leave it on the root alone"};
  return story;
}

}  // namespace

Demo demonstration() {
  return demo<Settings>(
      {.name = "collectives",
       .lesson = "the six collectives, with one number a rank",
       .text = "Rank r holds r + 1; before a scatter the root holds a number for each rank. An "
               "empty place is a rank that receives nothing. DistributedDataParallel broadcasts "
               "rank 0's state once, and all-reduces gradients in every step.",
       .meanings = {"number of ranks", "the rank that sends or receives for all; one of the world",
                    "how reduce and all-reduce combine the numbers"},
       .mistakes = {{kOtherRoot, "the last rank names another root in the broadcast"},
                    {kOneSkips, "the last rank returns before the all-reduce"}},
       .refusal = [](const Settings& s) { return why_no_rank("root", s.root, s.world); },
       .program = program,
       .checks = {ranks_hold_what_the_definition_gives},
       .show = show});
}

}  // namespace lockstep::demos::collectives
