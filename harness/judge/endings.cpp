// Whether every rank recorded its whole run, and whether all communicated alike.
#include "harness/core/ladders.h"
#include "harness/core/text.h"
#include "harness/core/trace.h"
#include "harness/judge/rows.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

namespace lockstep::recorded {

namespace {

using Kind = Ending::Kind;

size_t updates_of(const Rank& rank) {
  size_t count = 0;
  for (const auto& record : rank.records) {
    const auto* fact = std::get_if<Fact>(&record.what);
    count += fact && fact->name.starts_with("optimizer ") ? 1 : 0;
  }
  return count;
}

size_t issued_by(const Rank& rank) {
  size_t count = 0;
  for (const auto& event : rank.history.events)
    count += std::holds_alternative<Collective>(event.what) ? 1 : 0;
  return count;
}

std::string rank_text(const Rank& rank) {
  return "rank " + std::to_string(rank.number);
}

std::string where_it_was(const Rank& rank) {
  const auto& last = rank.history.last;
  return last.phase.empty() ? "before its first step"
                            : "in step " + std::to_string(last.step) + ", " + last.phase;
}

std::string how_it_ended(const Rank& rank) {
  const auto& ending = rank.history.ending;
  switch (ending.kind) {
    case Kind::threw:
      return "threw " + where_it_was(rank) + ": " + one_line(ending.why);
    case Kind::exited:
      return "left its program " + where_it_was(rank) + " with exit status " + one_line(ending.why);
    case Kind::returned:
      return "returned after " + counted(updates_of(rank), "update");
    case Kind::overflowed:
      return "recorded up to " + where_it_was(rank).substr(3) + ", then its file was full";
    case Kind::cut_off:
      return rank.is_there ? "stopped " + where_it_was(rank) + " without an ending"
                           : "left no file";
    default:
      return std::string(name_of(ending.kind)) + " " + where_it_was(rank) +
             (ending.why.empty() ? "" : ": " + one_line(ending.why));
  }
}

std::string endings_text(const RecordedRun& run) {
  constexpr size_t kMost = 12;
  std::string text = "\nhow the ranks ended:";
  for (size_t rank = 0; rank < std::min(run.ranks.size(), kMost); ++rank)
    text += "\n" + rank_text(run.ranks[rank]) + " " + how_it_ended(run.ranks[rank]);
  if (run.ranks.size() > kMost)
    text += "\nand " + counted(run.ranks.size() - kMost, "rank") + " more";
  return text;
}

bool ended_badly(const Rank& rank) {
  const auto kind = rank.history.ending.kind;
  return kind == Kind::threw || kind == Kind::exited || kind == Kind::signalled;
}

bool was_waiting(const Rank& rank) {
  const Collective* last = nullptr;
  for (const auto& event : rank.history.events)
    if (const auto* issued = std::get_if<Collective>(&event.what)) last = issued;
  return last && !last->done;
}

// The rank whose bad end explains the others': one that was in no collective before one that was,
// and the first in time.
const Rank* first_that_failed(const RecordedRun& run) {
  const Rank* first = nullptr;
  const auto order = [](const Rank& rank) {
    return std::tuple(was_waiting(rank), rank.history.ending.at.ns);
  };
  for (const auto& rank : run.ranks)
    if (ended_badly(rank) && (!first || order(rank) < order(*first))) first = &rank;
  return first;
}

// A rank without an ending, which was killed, say, where the first that failed was waiting for its
// peers.
const Rank* lost_before(const Rank* failed, const RecordedRun& run) {
  if (!failed || !was_waiting(*failed)) return nullptr;
  for (const auto& rank : run.ranks)
    if (rank.is_there && rank.history.ending.kind == Kind::cut_off) return &rank;
  return nullptr;
}

// The sentence of a rank whose process group is not the world that its launcher started.
std::string another_world(const Rank& rank) {
  for (const auto& record : rank.records) {
    const auto* fact = std::get_if<Fact>(&record.what);
    if (!fact || fact->name != "process group") continue;
    const auto world = fact->whole("world"), number = fact->whole("rank");
    if (world == rank.world && number == rank.number) return "";
    return rank_text(rank) + " of " + std::to_string(rank.world) + " that were launched is rank " +
           std::to_string(number.value_or(-1)) + " of " + std::to_string(world.value_or(-1)) +
           " in its process group";
  }
  const bool may_make_one = rank.history.ending.kind != Kind::returned && updates_of(rank) == 0;
  if (rank.world == 1 || !rank.is_there || may_make_one) return "";
  return rank_text(rank) + " of " + std::to_string(rank.world) +
         " that were launched made no process group";
}

struct Missing {
  std::string text;
  std::set<int> ranks;
};

std::optional<Missing> first_missing(const History& history) {
  for (const auto& [group, ladder] : ladders(history)) {
    const auto members = members_of(group, ladder, history.size());
    for (const auto& [sequence, rung] : ladder) {
      Missing missing;
      for (const int rank : members)
        if (!rung.contains(rank)) missing.ranks.insert(rank);
      if (missing.ranks.empty()) continue;
      const std::vector<int> ranks(missing.ranks.begin(), missing.ranks.end());
      missing.text = ranks_text(ranks) + " never issued " + lockstep::place_of(sequence, group) +
                     ", " + text_of(rung.begin()->second) + ", which rank " +
                     std::to_string(rung.begin()->first) + " issued";
      return missing;
    }
  }
  return {};
}

// Two ranks of which each waits in a collective that the other never issued: their orders differ,
// whichever of them gave up first.
std::optional<std::string> crossed_waits(const History& history) {
  std::map<std::pair<int, int>, std::string> waits;  // of a rank for another one
  for (const auto& [group, ladder] : ladders(history)) {
    const auto members = members_of(group, ladder, history.size());
    std::set<int> seen;  // ranks whose first unfinished collective of the group was looked at
    for (const auto& [sequence, rung] : ladder)
      for (const auto& [rank, collective] : rung) {
        if (collective.done || !seen.insert(rank).second) continue;
        for (const int other : members)
          if (!rung.contains(other))
            waits.try_emplace({rank, other},
                              lockstep::place_of(sequence, group) + ", " + text_of(collective));
      }
  }
  for (const auto& [ranks, place] : waits) {
    const auto [rank, other] = ranks;
    const auto back = waits.find({other, rank});
    if (back == waits.end()) continue;
    const auto waiting = [](int who, const std::string& where, int without) {
      return "rank " + std::to_string(who) + " waited in " + where + ", which rank " +
             std::to_string(without) + " never issued";
    };
    return waiting(rank, place, other) + "; " + waiting(other, back->second, rank);
  }
  return {};
}

// True where every rank was stopped from outside, some perhaps a moment before they would have
// issued what a peer had.
bool all_were_stopped(const RecordedRun& run) {
  return std::all_of(run.ranks.begin(), run.ranks.end(),
                     [](const Rank& rank) { return rank.history.ending.kind == Kind::cut_off; });
}

// False where a rank may have been stopped before it did what is missing.
bool all_returned(const RecordedRun& run) {
  return std::all_of(run.ranks.begin(), run.ranks.end(),
                     [](const Rank& rank) { return rank.history.ending.kind == Kind::returned; });
}

// True where a rank lacks later collectives because it ended by itself, as the first claim says.
bool is_explained(const RecordedRun& run, const Missing& missing) {
  const bool any_ended = !all_were_stopped(run);
  return std::any_of(missing.ranks.begin(), missing.ranks.end(), [&](int number) {
    const auto& rank = run.ranks[static_cast<size_t>(number)];
    const auto kind = rank.history.ending.kind;
    return !rank.is_there || ended_badly(rank) || kind == Kind::overflowed ||
           (kind == Kind::cut_off && any_ended);
  });
}

// What a recorder says that it left out.
Findings not_recorded(const RecordedRun& run) {
  std::map<std::string, std::vector<int>> ranks;
  for (const auto& rank : run.ranks)
    for (const auto& record : rank.records)
      if (const auto* fact = std::get_if<Fact>(&record.what);
          fact && fact->name == "not recorded") {
        auto& of = ranks[fact->text("what") + ": " + fact->text("because")];
        if (of.empty() || of.back() != rank.number) of.push_back(rank.number);
      }
  Findings remarks;
  for (const auto& [text, of] : ranks)
    remarks.push_back(
        {"", "not_recorded", "", "the recorder of " + ranks_text(of) + " left out " + text});
  return remarks;
}

// The causes of PyTorch's exceptions that name a symptom alone.
std::string known_cause(const Rank& rank) {
  const auto& why = rank.history.ending.why;
  const auto has = [&](const char* words) { return why.find(words) != std::string::npos; };
  if (has("modified by an inplace operation")) {
    for (const auto& event : rank.history.events)
      if (const auto* is = std::get_if<Collective>(&event.what); is && is->op == "ddp_buffers")
        return "\ncause: a second forward of a model broadcasts its buffers, in place, which the "
               "graph of the first one had saved: one forward for both batches, or "
               "broadcast_buffers=False";
  }
  if (has("marked as ready twice") || has("mark a variable ready only once"))
    return "\ncause: a parameter gets its gradient twice in one backward: a reentrant checkpoint "
           "(use_reentrant=False is the cure), or a module that several forwards share";
  if (has("did not receive grad") || has("Expected to have finished reduction"))
    return "\ncause: parameters of the forward take no part in the loss on some rank: "
           "find_unused_parameters=True, or leave them out of the model";
  return "";
}

// One thing that a rank did between others: a synchronised backward of a model, or an update.
struct Deed {
  std::string what;
  Moment at;
};

// In order. Backwards within no_sync are not among them, since ranks may have unequally many.
std::vector<Deed> deeds_of(const Rank& rank) {
  std::vector<Deed> deeds;
  for (const auto& record : rank.records) {
    const auto* fact = std::get_if<Fact>(&record.what);
    if (!fact) continue;
    if (fact->name == "backward" && fact->text("kind") == "synchronised")
      deeds.push_back({"a backward of " + fact->text("model"), record.at});
    if (fact->name.starts_with("optimizer "))
      deeds.push_back({"an update by " + fact->name, record.at});
  }
  return deeds;
}

std::string skipped_text(const Rank& rank, const Moment& at) {
  for (const auto& record : rank.records)
    if (const auto* fact = std::get_if<Fact>(&record.what);
        fact && fact->name == "skipped" && record.at.step == at.step)
      return "\ncause: " + fact->text("by") + " skipped the update of " + fact->text("optimizer") +
             " on rank " + std::to_string(rank.number);
  return "";
}

// The first place at which two ranks did different things, though both went on.
std::optional<std::pair<Finding, Moment>> first_other_deed(const RecordedRun& run) {
  if (std::any_of(run.ranks.begin(), run.ranks.end(),
                  [](const Rank& rank) { return !rank.joins.empty(); }))
    return {};
  const auto first = deeds_of(run.ranks.front());
  std::optional<std::pair<Finding, Moment>> found;
  for (size_t number = 1; number < run.ranks.size(); ++number) {
    const auto& other = run.ranks[number];
    const auto deeds = deeds_of(other);
    size_t at = 0;
    while (at < std::min(first.size(), deeds.size()) && first[at].what == deeds[at].what) ++at;
    if (at >= std::min(first.size(), deeds.size())) continue;
    const auto &here = first[at], &there = deeds[at];
    if (found && !comes_before(here.at, found->second)) continue;
    const bool is_skipped =
        here.what.starts_with("an update") != there.what.starts_with("an update");
    const auto place = "step " + std::to_string(here.at.step);
    found = {Finding{"", is_skipped ? "skipped_update" : "other_order", place,
                     "in " + place + " " + rank_text(run.ranks.front()) + " made " + here.what +
                         ", and " + rank_text(other) + " " + there.what +
                         (is_skipped ? " without an update before it" : "") +
                         skipped_text(run.ranks.front(), here.at) + skipped_text(other, here.at)},
             here.at};
  }
  return found;
}

// When a rank issued the collective of a group with this number.
std::optional<Moment> issued_at(const RecordedRun& run, const std::string& group,
                                int64_t sequence) {
  for (const auto& rank : run.ranks)
    for (const auto& event : rank.history.events)
      if (const auto* is = std::get_if<Collective>(&event.what);
          is && is->group == group && is->sequence == sequence)
        return event.at;
  return {};
}

// The first rung of which some rank lacks the collective, or issued another one.
std::optional<Moment> first_unlike(const RecordedRun& run, const History& history) {
  std::optional<Moment> first;
  for (const auto& [group, ladder] : ladders(history)) {
    const auto members = members_of(group, ladder, history.size());
    for (const auto& [sequence, rung] : ladder) {
      if (rung.size() == members.size() && !mismatch_at(group, sequence, rung)) continue;
      const auto at = issued_at(run, group, sequence);
      if (at && (!first || comes_before(*at, *first))) first = at;
      break;
    }
  }
  return first;
}

}  // namespace

Judgement ranks_record_whole_run(const RecordedRun& run) {
  Judgement judgement{.compared = counted(run.ranks.size(), "rank"), .remarks = not_recorded(run)};
  if (const auto* lost = lost_before(first_that_failed(run), run)) {
    judgement.findings.push_back({"", "lost", rank_text(*lost),
                                  rank_text(*lost) + " " + how_it_ended(*lost) +
                                      ", and its peers waited for it" + endings_text(run)});
    judgement.at = lost->history.last;
    return judgement;
  }
  if (const auto* failed = first_that_failed(run)) {
    judgement.findings.push_back({"", std::string(name_of(failed->history.ending.kind)),
                                  rank_text(*failed),
                                  rank_text(*failed) + " " + how_it_ended(*failed) +
                                      known_cause(*failed) + endings_text(run)});
    judgement.at = failed->history.last;
    judgement.is_victim = was_waiting(*failed);
    return judgement;
  }
  for (const auto& rank : run.ranks)
    if (const auto text = another_world(rank); !text.empty())
      judgement.findings.push_back({"", "trains_alone", rank_text(rank), text});
  size_t updates = 0;
  for (const auto& rank : run.ranks) updates += updates_of(rank);
  if (updates == 0 && all_returned(run))
    judgement.findings.push_back(
        {"", "vacuous", "", "no rank recorded an update" + endings_text(run)});
  if (!judgement.findings.empty()) return judgement;
  for (const auto& rank : run.ranks)
    if (const auto kind = rank.history.ending.kind; kind != Kind::returned) {
      judgement.findings.push_back(
          {"", std::string(name_of(kind)), rank_text(rank),
           rank_text(rank) + " " + how_it_ended(rank) + endings_text(run)});
      judgement.is_certain = false;
      break;
    }
  return judgement;
}

Judgement ranks_make_the_same_steps(const RecordedRun& run) {
  const auto progress = [](const Rank& rank) {
    return std::tuple(updates_of(rank) + rank.shadowed, issued_by(rank));
  };
  Judgement judgement{.compared = counted(updates_of(run.ranks.front()), "update")};
  if (auto found = first_other_deed(run)) {
    found->first.text += endings_text(run);
    judgement.findings.push_back(std::move(found->first));
    judgement.at = found->second;
    return judgement;
  }
  for (const auto& rank : run.ranks) {
    if (rank.history.ending.kind != Kind::returned) continue;
    for (const auto& other : run.ranks)
      if (progress(rank) < progress(other)) {
        judgement.findings.push_back(
            {"", "stopped_early", rank_text(rank),
             rank_text(rank) + " returned after " + counted(updates_of(rank), "update") + ", and " +
                 rank_text(other) + " went on to step " + std::to_string(other.history.last.step) +
                 ", " + other.history.last.phase + endings_text(run)});
        judgement.at = rank.history.last;
        return judgement;
      }
  }
  return judgement;
}

Judgement collectives_have_one_order(const RecordedRun& run) {
  const auto history = run.history();
  size_t count = 0;
  for (const auto& rank : run.ranks) count = std::max(count, issued_by(rank));
  Judgement judgement{.compared = counted(count, "collective")};
  if (run.ranks.size() == 1) return {.why_not = "one rank alone"};
  if (count == 0) {
    if (!all_returned(run)) return {.why_not = "no rank issued a collective before it ended"};
    judgement.findings.push_back(
        {"", "no_collective", "", "no rank issued a collective: each trains alone"});
    return judgement;
  }
  std::string text, pattern;
  if (const auto mismatch = first_mismatch(history)) {
    text = *mismatch;
    pattern = "mismatched_collectives";
  } else if (const auto missing = first_missing(history); missing && !is_explained(run, *missing)) {
    text = missing->text;
    pattern = "missing_collective";
    judgement.is_certain = !all_were_stopped(run);
  } else if (const auto crossed = crossed_waits(history)) {
    text = *crossed;
    pattern = "mismatched_collectives";
  }
  if (text.empty()) return judgement;
  for (const auto& line : ladder(history)) text += "\n" + line;
  for (const auto& line : wavefront(history)) text += "\n" + line;
  judgement.findings.push_back({"", pattern, "", text + endings_text(run)});
  judgement.at = first_unlike(run, history);
  return judgement;
}

}  // namespace lockstep::recorded
