// The page of a recorded run: its ladder, its lanes of computation and communication, norms over
// steps, and which rank holds which tensor unlike the others.
#include "cli/output/run_page.h"
#include "harness/base/text.h"
#include "harness/invariants/rows.h"
#include "harness/timeline/timeline.h"
#include "reports/pages/run_page.h"
#include "reports/pictures/aggregate.h"
#include "reports/pictures/communication.h"
#include "reports/style.h"

#include <algorithm>
#include <cmath>

namespace lockstep::cli {

namespace {

using recorded::RecordedRun;
using recorded::Row;
using reports::number_text;
using reports::Picture;

constexpr double kNsInMs = 1e6;

// When the first backward pass of any rank began: what came before is construction.
std::optional<int64_t> first_backward(const recorded::Timeline& timeline) {
  std::optional<int64_t> first;
  for (const auto& rank : timeline.ranks)
    for (const auto& span : rank.spans)
      if (span.name == "backward") first = std::min(first.value_or(span.from_ns), span.from_ns);
  return first;
}

// Two lanes a rank, its backward passes and what it sent, from the first backward on.
std::optional<Picture> lanes_of(const RecordedRun& run) {
  const auto timeline = recorded::timeline_of(run);
  const auto begin = first_backward(timeline);
  if (!timeline.has_one_clock || !begin) return {};
  const auto ms = [&](int64_t ns) { return static_cast<double>(ns - *begin) / kNsInMs; };
  reports::Lanes lanes{.time_axis = "milliseconds", .lanes = {}};
  int64_t exposed = 0, overlapped = 0;
  for (size_t rank = 0; rank < timeline.ranks.size(); ++rank) {
    const auto& is = timeline.ranks[rank];
    const auto label = reports::rank_label(static_cast<int>(rank));
    auto& computed =
        lanes.lanes.emplace_back(reports::Lanes::Lane{{label.text + " backward", label.rank}, {}});
    for (const auto& span : is.spans)
      if (span.name == "backward")
        computed.spans.push_back({ms(span.from_ns), ms(span.to_ns), span.name});
    auto& sent =
        lanes.lanes.emplace_back(reports::Lanes::Lane{{label.text + " sends", label.rank}, {}});
    for (const auto& each : is.collectives)
      if (each.from_ns >= *begin)
        sent.spans.push_back({ms(each.from_ns), ms(each.to_ns < 0 ? timeline.end_ns : each.to_ns),
                              "#" + std::to_string(each.is.sequence) + " " + each.is.op,
                              each.to_ns < 0 ? reports::Mark::missing : reports::Mark::plain});
    const auto overlap = recorded::overlap_of(is);
    exposed += overlap.exposed_ns;
    overlapped += overlap.overlapped_ns;
  }
  const auto ranks = static_cast<double>(timeline.ranks.size()) * kNsInMs;
  const auto per_rank = [&](int64_t ns) { return number_text(static_cast<double>(ns) / ranks); };
  return reports::within_marks(
      {.title = "Backward passes and communication of each rank",
       .caption = "from the first backward pass on: within its backward passes a rank communicated "
                  "for " +
                  per_rank(overlapped) + " ms while it computed, and for " + per_rank(exposed) +
                  " ms with nothing left to compute",
       .body = std::move(lanes),
       .key = {{reports::Mark::missing, "not known to be done"}}});
}

double norm_of(const recorded::Digests& digests) {
  double squares = 0;
  for (const auto& digest : digests.values)
    if (!digest.is_missing()) squares += digest.norm * digest.norm;
  return std::sqrt(squares);
}

// The norm of all tensors of a role over the run, a line a rank.
std::optional<Picture> norms_of(const RecordedRun& run, const std::string& role) {
  const auto rows = recorded::rows_of(run, role);
  if (rows.size() < 2) return {};
  reports::Lines lines{
      .column_axis = "record", .value_axis = "norm of all " + role, .columns = {}, .series = {}};
  for (size_t rank = 0; rank < run.ranks.size(); ++rank)
    lines.series.push_back({reports::rank_label(static_cast<int>(rank)), {}});
  size_t apart = 0;
  for (const auto& row : rows) {
    lines.columns.push_back(std::to_string(row.at.step));
    std::vector<double> values;
    for (size_t rank = 0; rank < run.ranks.size(); ++rank) {
      const auto* digests = rank < row.by_rank.size() ? row.by_rank[rank] : nullptr;
      const double norm = digests ? norm_of(*digests) : std::nan("");
      values.push_back(std::isfinite(norm) ? norm : std::nan(""));
      lines.series[rank].values.push_back(values.back());
    }
    apart += recorded::difference_in(row, role) ? 1 : 0;
  }
  return reports::within_marks(
      {.title = "The " + role + " of every rank over the run",
       .caption = apart == 0 ? "the ranks recorded the same " + role + " in each of " +
                                   counted(rows.size(), "record")
                             : "the ranks recorded unlike " + role + " in " +
                                   std::to_string(apart) + " of " + counted(rows.size(), "record"),
       .body = std::move(lines)});
}

// The first record in which ranks differ: a row a rank, a column a tensor.
std::optional<Picture> tensors_of(const RecordedRun& run, const std::string& role) {
  for (const auto& row : recorded::rows_of(run, role)) {
    const auto difference = recorded::difference_in(row, role);
    if (!difference || !row.is_whole()) continue;
    const auto& list = *row.by_rank.front()->list;
    reports::Grid grid{.column_axis = "tensor", .columns = {{"", {}}}, .rows = {}};
    for (const auto& tensor : list.tensors) grid.columns[0].names.push_back(tensor.name);
    size_t unlike = 0;
    for (size_t rank = 0; rank < row.by_rank.size(); ++rank) {
      auto& line = grid.rows.emplace_back(
          reports::Grid::Row{reports::rank_label(static_cast<int>(rank)), {}});
      const auto& values = row.by_rank[rank]->values;
      for (size_t tensor = 0; tensor < list.tensors.size(); ++tensor) {
        if (tensor >= values.size() || values[tensor].is_missing()) {
          line.cells.push_back({"none", reports::Mark::missing});
          continue;
        }
        const auto& first = row.by_rank.front()->values;
        const bool same = tensor < first.size() && first[tensor].bits == values[tensor].bits;
        unlike += same ? 0 : 1;
        line.cells.push_back(
            {number_text(values[tensor].norm), same ? reports::Mark::plain : reports::Mark::wrong});
      }
    }
    return reports::within_marks(
        {.title = "The norms of the " + role + " at " + recorded::place_of(row),
         .caption = counted(unlike, "tensor") + " on other ranks with other bits than on rank 0",
         .body = std::move(grid),
         .key = {{reports::Mark::missing, "no such tensor on this rank"},
                 {reports::Mark::wrong, "other bits than on rank 0"}}});
  }
  return {};
}

}  // namespace

std::string page_of(const Run& run, const RecordedRun& recorded) {
  reports::RunPage page{.run = run};
  const auto add = [](std::vector<Picture>& to, std::optional<Picture> one) {
    if (one) to.push_back(std::move(*one));
  };
  const auto history = recorded.history();
  for (const auto& result : run.results) {
    if (!is_failure(result.kind)) continue;
    auto& pictures = page.of_scenario[result.scenario];
    const auto family = family_of(result.scenario);
    if (family == "collectives" || family == "run") add(pictures, reports::ladder_picture(history));
    for (const std::string role : {"parameters", "gradients", "buffers", "state"})
      if (result.scenario.find(role) != std::string::npos) {
        add(pictures, tensors_of(recorded, role));
        add(pictures, norms_of(recorded, role));
      }
  }
  add(page.of_run, lanes_of(recorded));
  add(page.of_run, norms_of(recorded, "gradients"));
  add(page.of_run, norms_of(recorded, "parameters"));
  add(page.of_run, reports::ladder_picture(history));
  return reports::run_page(page);
}

}  // namespace lockstep::cli
