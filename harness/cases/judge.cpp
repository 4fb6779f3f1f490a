#include "harness/cases/rank_summary.h"
#include "harness/cases/scenario.h"
#include "harness/verdict/trace.h"
#include "harness/verdict/usual_cause.h"

#include <algorithm>
#include <limits>
#include <tuple>

namespace lockstep {

namespace {

std::vector<int> ranks_that(const History& history, std::initializer_list<Ending::Kind> kinds) {
  std::vector<int> out;
  for (int rank = 0; rank < history.size(); ++rank)
    for (const auto kind : kinds)
      if (history.ranks()[static_cast<size_t>(rank)].ending.kind == kind) out.push_back(rank);
  return out;
}

std::string how_it_ended(const History& history, int rank) {
  const auto& is = history.ranks()[static_cast<size_t>(rank)];
  const std::string who = "rank " + std::to_string(rank);
  const auto how = [&]() -> std::string {
    switch (is.ending.kind) {
      case Ending::Kind::signalled:
        return " was ended by " + is.ending.why;
      case Ending::Kind::exited:
        return " left its program with exit status " + is.ending.why;
      case Ending::Kind::threw:
        return " threw: " + is.ending.why;
      case Ending::Kind::stuck:
        return " did not return inside the deadline";
      default:
        return " " + std::string(name_of(is.ending.kind)) +
               (is.ending.why.empty() ? "" : " (" + is.ending.why + ")");
    }
  };
  return who + how() + ", " + moment_text(is.last);
}

// The limit of the backend in a collective that the rank had under way when it threw.
std::string limit_of(const History& history, int rank) {
  if (history.ranks()[static_cast<size_t>(rank)].ending.kind != Ending::Kind::threw) return "";
  for (const auto& one : history.collectives(rank))
    if (auto limit = one.done ? "" : backend_limit(one); !limit.empty()) return limit;
  return "";
}

Verdict crash(const History& history, int rank) {
  const auto& is = history.ranks()[static_cast<size_t>(rank)];
  const auto how = how_it_ended(history, rank);
  // Where collectives diverge that is the cause, whichever rank was ended by it. Of an exception
  // that says so, too, only the place is quoted.
  const auto mismatch = first_mismatch(history);
  const auto point = mismatch ? first_divergence_point(history) : std::nullopt;
  const auto& why = is.ending.why;
  const auto quoted = mismatch ? why.find(*mismatch) : std::string::npos;
  const auto where = quoted == std::string::npos ? "" : why.substr(quoted + mismatch->size());
  const bool says_so =
      mismatch && why.find(mismatch->substr(0, mismatch->find(':'))) != std::string::npos;
  const auto text = !mismatch ? how
                    : says_so ? *mismatch + "; rank " + std::to_string(rank) + " threw" + where +
                                    ", " + moment_text(is.last)
                              : *mismatch + "; " + how;
  return {Verdict::Kind::crash,
          {{.rule = "Every rank must return from its program",
            .pattern = mismatch ? kMismatched : std::string(name_of(is.ending.kind)),
            .where = "rank " + std::to_string(rank) + " " + moment_text(is.last),
            .diagnosis = text,
            .details = rank_summary(history, is.ending.why),
            .cause = usual_cause_of(point, history),
            .limit = mismatch ? "" : limit_of(history, rank)}}};
}

std::optional<std::string> first_stopped(const History& history, const std::vector<int>& stuck) {
  for (const int rank : stuck) {
    const auto& is = history.ranks()[static_cast<size_t>(rank)];
    if (is.ending.why == kStopped)
      return "rank " + std::to_string(rank) + " was stopped, " + moment_text(is.last);
  }
  return {};
}

Verdict hang(const History& history, const std::vector<int>& stuck) {
  const std::string who = ranks_text(stuck) + " did not return inside the deadline";
  const auto divergence_point = first_divergence_point(history);
  const bool mismatch = divergence_point && divergence_point->is_mismatch;
  auto why = mismatch ? std::nullopt : first_stopped(history, stuck);
  const bool ranks_part = !why && divergence_point;
  if (ranks_part) why = divergence_point->text;
  return {Verdict::Kind::hang,
          {{.rule = "Every rank must return inside the deadline",
            .pattern = mismatch ? kMismatched : "stuck",
            .where = ranks_text(stuck),
            .diagnosis = why ? *why + "; " + who : who,
            .details = rank_summary(history),
            .cause = ranks_part ? usual_cause_of(divergence_point, history)
                     : why      ? ""
                           : "a rank waits outside of every collective: for a lock, a file, or "
                             "in a loop that does not end"}}};
}

// Returns the rank among those that threw that explains the others: a rank that was waiting in a
// collective threw because a peer did not come, and that peer had issued fewer. Where that does not
// decide, the first in time.
int first_to_throw(const History& history, const std::vector<int>& threw) {
  const auto progress_of = [&](int rank) {
    const auto all = history.collectives(rank);
    const bool was_waiting = !all.empty() && !all.back().done;
    const auto when = history.ranks()[static_cast<size_t>(rank)].ending.at.ns;
    return std::tuple(was_waiting, all.size(),
                      when < 0 ? std::numeric_limits<int64_t>::max() : when);
  };
  return *std::min_element(threw.begin(), threw.end(),
                           [&](int a, int b) { return progress_of(a) < progress_of(b); });
}

// A rank that was signalled or exited, or had no room, explains why its peers threw or waited, so
// it is named first.
std::optional<Verdict> judge_endings(const History& history) {
  for (const auto kind : {Ending::Kind::signalled, Ending::Kind::exited})
    if (const auto ranks = ranks_that(history, {kind}); !ranks.empty())
      return crash(history, ranks.front());
  if (const auto full = ranks_that(history, {Ending::Kind::overflowed}); !full.empty())
    return Verdict{
        Verdict::Kind::inconclusive,
        {{"A rank must have room for what it records and writes", "overflowed", ranks_text(full),
          "rank " + std::to_string(full.front()) +
              " had no room: " + history.ranks()[static_cast<size_t>(full.front())].ending.why,
          rank_summary(history)}}};
  if (const auto threw = ranks_that(history, {Ending::Kind::threw}); !threw.empty())
    return crash(history, first_to_throw(history, threw));
  if (const auto stuck = ranks_that(history, {Ending::Kind::stuck}); !stuck.empty())
    return hang(history, stuck);
  if (const auto cut = ranks_that(history, {Ending::Kind::cut_off}); !cut.empty())
    return Verdict{Verdict::Kind::inconclusive,
                   {{"Every rank must say how it ended", "cut_off", ranks_text(cut),
                     ranks_text(cut) + " stopped without an ending", rank_summary(history)}}};
  return {};
}

Findings leftovers(const History& history) {
  Findings out;
  // Work whose collective a peer never issued, or in whose place it issued another, never ends.
  const auto point = first_divergence_point(history);
  const auto cause = usual_cause_of(point, history);
  for (int rank = 0; rank < history.size(); ++rank)
    for (const auto& event : history.ranks()[static_cast<size_t>(rank)].events)
      if (const auto* left = std::get_if<LeftBehind>(&event.what))
        out.push_back({.rule = "A rank must leave nothing behind",
                       .pattern = "left_behind",
                       .where = "rank " + std::to_string(rank),
                       .diagnosis = (point && out.empty() ? point->text + "; " : "") + "rank " +
                                    std::to_string(rank) + ": " + left->what,
                       .cause = cause});
  return out;
}

// Also where every rank returned: a backend may report success for tensors that do not match.
Findings mismatches(const History& history) {
  const auto mismatch = first_mismatch(history);
  if (!mismatch) return {};
  return {{.rule = "Every rank must issue the same collectives in the same order",
           .pattern = kMismatched,
           .where = "",
           .diagnosis = *mismatch,
           .details = rank_summary(history),
           .cause = usual_cause_of(first_divergence_point(history), history)}};
}

// An injection that was planted and never struck has tested nothing. Late results and delays before
// a collective are excepted: they are drawn for all kinds of cases, whatever collectives these
// have.
bool may_be_idle(const Injection& injection) {
  return injection.kind == InjectionKind::late ||
         (injection.kind == InjectionKind::delay && injection.collective >= 0);
}

Findings idle_injections(const Case& c, const History& history) {
  Findings out;
  if (c.value.value(Json::json_pointer("/world/injections"), Json()).empty()) return {};
  const auto planted = world_of(c).injections;
  std::vector<int> struck(static_cast<size_t>(history.size()), 0);
  for (int rank = 0; rank < history.size(); ++rank)
    for (const auto& event : history.ranks()[static_cast<size_t>(rank)].events)
      if (const auto* one = std::get_if<Injection>(&event.what); one && !may_be_idle(*one))
        ++struck[static_cast<size_t>(rank)];
  for (const auto& one : planted) {
    if (may_be_idle(one)) continue;
    const bool is_here = one.rank < history.size();
    if (is_here && struck[static_cast<size_t>(one.rank)]-- > 0) continue;
    out.push_back({"An injection must strike", "did_not_strike", "rank " + std::to_string(one.rank),
                   "the injection '" + word_of(one.kind) + "' for rank " +
                       std::to_string(one.rank) +
                       (is_here ? " found neither its collective nor its moment"
                                : ", which this world of " + std::to_string(history.size()) +
                                      " does not have, cannot strike")});
  }
  return out;
}

Verdict vacuous(const std::string& text) {
  return {Verdict::Kind::fail, {{"A case must be judged on something", "vacuous", "", text}}};
}

std::string last_record(const RankHistory& rank) {
  for (auto event = rank.events.rbegin(); event != rank.events.rend(); ++event)
    if (const auto* seen = std::get_if<Observation>(&event->what))
      return "its last record is " + seen->name + ", " + moment_text(event->at);
  return "it recorded nothing";
}

// The first rank that did not return; -1: all did.
int rank_that_did_not_return(const History& history) {
  for (int rank = 0; rank < history.size(); ++rank)
    if (history.ranks()[static_cast<size_t>(rank)].ending.kind != Ending::Kind::returned)
      return rank;
  return -1;
}

// `what` is missing in the record of `rank`, while others have it; -1: no rank has it, and a rank
// that did not return explains that. How a rank ended comes first.
Verdict not_recorded(const History& history, int rank, const std::string& what) {
  if (rank < 0) rank = rank_that_did_not_return(history);
  if (rank < 0)
    return {Verdict::Kind::fail,
            {{"Every rank must record what the case is judged on", "recorded_less", "",
              what + ": the subject left it out", rank_summary(history)}}};
  const auto& is = history.ranks()[static_cast<size_t>(rank)];
  const auto ended = is.ending.kind;
  if (ended == Ending::Kind::stuck) return hang(history, ranks_that(history, {ended}));
  if (ended == Ending::Kind::threw || ended == Ending::Kind::signalled ||
      ended == Ending::Kind::exited)
    return crash(history, rank);
  const bool returned = ended == Ending::Kind::returned;
  return {Verdict::Kind::fail,
          {{"Every rank must record what the case is judged on",
            returned ? "recorded_less" : std::string(name_of(ended)),
            "rank " + std::to_string(rank) + " " + moment_text(is.last),
            returned ? what + "; " + last_record(is) : how_it_ended(history, rank) + "; " + what,
            rank_summary(history)}}};
}

std::optional<Verdict> judge_refusals(const History& history) {
  const auto refused = ranks_that(history, {Ending::Kind::refused});
  if (refused.empty()) return {};
  if (static_cast<int>(refused.size()) == history.size())
    return Verdict{Verdict::Kind::refused,
                   {{"The subject must offer what the case wants", "refused", "",
                     history.ranks().front().ending.why}}};
  return Verdict{Verdict::Kind::fail,
                 {{"All ranks must refuse a case, or none", "refused_by_some", ranks_text(refused),
                   ranks_text(refused) + " refused (" +
                       history.ranks()[static_cast<size_t>(refused.front())].ending.why +
                       "), the others did not",
                   rank_summary(history)}}};
}

std::optional<Verdict> judge_emptiness(const Case& c, const History& history) {
  if (history.size() == 0 || history.size() != world_size(c))
    return vacuous("the case has " + std::to_string(world_size(c)) + " ranks, the history " +
                   std::to_string(history.size()));
  std::vector<int> silent;
  for (int rank = 0; rank < history.size(); ++rank) {
    bool observed = false;
    for (const auto& event : history.ranks()[static_cast<size_t>(rank)].events)
      observed = observed || std::holds_alternative<Observation>(event.what);
    if (!observed) silent.push_back(rank);
  }
  if (static_cast<int>(silent.size()) == history.size()) {
    const std::string what = "no rank recorded an observation";
    return rank_that_did_not_return(history) < 0 ? vacuous(what) : not_recorded(history, -1, what);
  }
  if (!silent.empty())
    return not_recorded(history, silent.front(), ranks_text(silent) + " recorded no observation");
  return {};
}

// True if every rank has entered another moment after this one.
bool all_ranks_went_past(const History& history, const Moment& at) {
  return std::all_of(history.ranks().begin(), history.ranks().end(), [&](const RankHistory& rank) {
    return rank.last != at && std::any_of(rank.events.begin(), rank.events.end(),
                                          [&](const Event& event) { return event.at == at; });
  });
}

// A bad ending, and what checks find wrong at moments that all ranks were past by then: it may be
// where the ending comes from.
Verdict with_what_was_wrong_before(Verdict ending, const Scenario& scenario, const Case& c,
                                   const History& history) {
  if (!is_failure(ending.kind)) return ending;
  try {
    for (auto& finding : scenario.checks(c, history))
      if (finding.where.at && all_ranks_went_past(history, *finding.where.at))
        ending.findings.push_back(std::move(finding));
  } catch (const std::exception&) {
    // A history that ended early need not hold what a check looks for.
  }
  return ending;
}

std::optional<Verdict> judge_how_it_ended(const History& history) {
  if (auto verdict = judge_endings(history)) return verdict;
  auto left = leftovers(history);
  if (left.empty()) return {};
  return Verdict{Verdict::Kind::leak, std::move(left)};
}

Verdict judged(const Scenario& scenario, const Case& c, const History& history) {
  if (auto refusal = refusal_of(scenario, c)) return *refusal;
  if (!scenario.judges_endings)
    if (auto verdict = judge_how_it_ended(history))
      return with_what_was_wrong_before(std::move(*verdict), scenario, c, history);
  if (auto verdict = judge_refusals(history)) return *verdict;
  if (auto verdict = judge_emptiness(c, history)) return *verdict;
  try {
    auto findings = scenario.checks(c, history);
    findings += mismatches(history);
    if (findings.empty()) {
      auto idle = idle_injections(c, history);
      if (idle.empty()) return {};
      return {Verdict::Kind::inconclusive, std::move(idle)};
    }
    return {Verdict::Kind::fail, std::move(findings)};
  } catch (const NotSeen& error) {
    return not_recorded(history, error.rank, error.what());
  } catch (const Refused& error) {
    return {Verdict::Kind::refused,
            {{"A case must have a reference", "refused", "", error.what()}}};
  } catch (const std::exception& error) {
    return {Verdict::Kind::inconclusive,
            {{"A check must not throw", "check_threw", "", error.what()}}};
  }
}

}  // namespace

Verdict judge(const Scenario& scenario, const Case& c, const History& history) {
  auto verdict = judged(scenario, c, history);
  for (auto& finding : verdict.findings) {
    if (auto cause = scenario.cause(c, finding.pattern); !cause.empty()) finding.cause = cause;
    if (!keep_first_line(finding)) continue;
    auto& next = std::get<std::string>(finding.details.front());
    next = "its message continues: " + next;
  }
  return verdict;
}

}  // namespace lockstep
