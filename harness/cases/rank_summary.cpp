#include "harness/cases/rank_summary.h"

#include "harness/base/text.h"
#include "harness/verdict/trace.h"

#include <algorithm>

namespace lockstep {

namespace {

std::string last_collective(const History& history, int rank) {
  const auto all = history.collectives(rank);
  if (all.empty()) return "it issued no collective";
  const auto& last = all.back();
  return "last collective #" + std::to_string(last.sequence) + " " + last.op + " of " +
         with_commas(last.elements) + " " + last.dtype + (last.done ? ", done" : ", not done");
}

// Late results are drawn for all kinds of cases and explain no ending.
std::string injections_text(const RankHistory& rank) {
  std::string text;
  for (const auto& event : rank.events)
    if (const auto* struck = std::get_if<Injection>(&event.what);
        struck && struck->kind != InjectionKind::late)
      text += "; injected: " + word_of(struck->kind) +
              (struck->collective >= 0 ? " at collective #" + std::to_string(struck->collective)
                                       : " " + moment_text(struck->at));
  return text;
}

constexpr int kSummaryRanksMost = 12;

}  // namespace

std::string moment_text(const Moment& at) {
  return at.phase.empty() ? "before its first step"
                          : "at step " + std::to_string(at.step) + ", " + at.phase;
}

Details rank_summary(const History& history, const std::string& said) {
  Table ranks{.columns = {{"", Table::Holds::name}}, .rows = {}};
  for (int rank = 0; rank < std::min(history.size(), kSummaryRanksMost); ++rank) {
    const auto& is = history.ranks()[static_cast<size_t>(rank)];
    const bool is_said = is.ending.kind == Ending::Kind::threw && is.ending.why == said;
    ranks.rows.push_back(
        {.cells = {{"rank " + std::to_string(rank)}},
         .remark = std::string(name_of(is.ending.kind)) +
                   (is.ending.why.empty() || is_said ? "" : " (" + is.ending.why + ")") + " " +
                   moment_text(is.last) + "; " + last_collective(history, rank) +
                   injections_text(is),
         .rank = rank});
  }
  Details details{std::move(ranks)};
  if (history.size() > kSummaryRanksMost)
    details.push_back("and " + std::to_string(history.size() - kSummaryRanksMost) + " ranks more");
  details += ladder(history);
  details += wavefront(history);
  return details;
}

}  // namespace lockstep
