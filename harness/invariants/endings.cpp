// Judges whether every rank recorded its whole run.
#include "harness/invariants/endings.h"

#include "harness/base/text.h"
#include "harness/invariants/at_wrapping.h"
#include "harness/invariants/data/uneven_batches.h"
#include "harness/invariants/habits/updates_by_hand.h"
#include "harness/verdict/trace.h"
#include "harness/verdict/usual_cause.h"

#include <algorithm>
#include <array>
#include <map>
#include <tuple>

namespace lockstep::recorded {

namespace {

using Kind = Ending::Kind;

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

bool was_waiting(const Rank& rank) {
  const Collective* last = nullptr;
  for (const auto& event : rank.history.events)
    if (const auto* issued = std::get_if<Collective>(&event.what)) last = issued;
  return last && !last->done;
}

// The words of exceptions by which backends say that a peer did not answer, or had gone.
constexpr std::array kOfPeers{
    "Timed out waiting", "Connection closed by peer", "Connection reset by peer",  "Broken pipe",
    "Socket Timeout",    "timed out after",           "Watchdog caught collective"};

// The rank whose bad end explains the others': one that gave up waiting comes after one that did
// not, and then the first in time.
const Rank* first_that_failed(const RecordedRun& run) {
  const Rank* first = nullptr;
  const auto order = [](const Rank& rank) {
    return std::tuple(gave_up_waiting(rank), rank.history.ending.at.ns);
  };
  for (const auto& rank : run.ranks)
    if (ended_badly(rank) && (!first || order(rank) < order(*first))) first = &rank;
  return first;
}

// A rank without an ending, which was killed, say, where the first that failed was waiting for its
// peers.
const Rank* lost_before(const Rank* failed, const RecordedRun& run) {
  if (!failed || !gave_up_waiting(*failed)) return nullptr;
  for (const auto& rank : run.ranks)
    if (rank.is_there && rank.history.ending.kind == Kind::cut_off) return &rank;
  return nullptr;
}

// The sentence of a rank whose process group is not the world that its launcher started.
std::string another_world(const Rank& rank) {
  for (const auto& record : rank.records) {
    const auto* fact = fact_in(record, fact::kProcessGroup);
    if (!fact) continue;
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

// The events that a recorder says it left out.
Findings not_recorded(const RecordedRun& run) {
  std::map<std::string, std::vector<int>> ranks;
  for (const auto& rank : run.ranks)
    for (const auto& record : rank.records)
      if (const auto* fact = fact_in(record, fact::kNotRecorded)) {
        auto& of = ranks[fact->text("what") + ": " + fact->text("because")];
        if (of.empty() || of.back() != rank.number) of.push_back(rank.number);
      }
  Findings remarks;
  for (const auto& [text, of] : ranks)
    remarks.push_back(
        {"", "not_recorded", "", "the recorder of " + ranks_text(of) + " left out " + text});
  return remarks;
}

// Says which model broadcasts buffers of the type and shape that PyTorch's exception names, as in
// "[torch.FloatTensor [8]] is at version 4".
std::string changed_buffers(const Rank& rank) {
  const auto& why = rank.history.ending.why;
  const auto of = why.find("Tensor ["), end = why.find(']', of);
  if (of == std::string::npos || end == std::string::npos) return "a model broadcasts its buffers";
  const auto shape = why.substr(of + 7, end - of - 6);
  const bool is_float = why.substr(0, of).ends_with("Float");
  std::map<std::string, std::vector<std::string>> buffers;  // by model
  for (const auto& record : rank.records)
    if (const auto* digests = digests_in(record, role::kBuffers))
      for (const auto& tensor : digests->list->tensors) {
        auto& names = buffers[digests->list->of];
        std::vector<std::string> extents;
        for (const auto extent : tensor.shape) extents.push_back(std::to_string(extent));
        if ("[" + joined(extents, ", ") + "]" == shape && (tensor.dtype == "float32") == is_float &&
            std::find(names.begin(), names.end(), tensor.name) == names.end())
          names.push_back(tensor.name);
      }
  for (const auto& [model, names] : buffers)
    if (!names.empty()) return model + " broadcasts its buffers (" + listed(names) + " among them)";
  return "a model broadcasts its buffers";
}

// Why a run may have no optimizer's update; empty if it should have one.
std::string why_no_update(const RecordedRun& run) {
  if (const auto why = why_not_by_hand(run); !why.empty()) return why;
  bool any_backward = false;
  for (const auto& rank : run.ranks)
    for (const auto& record : rank.records) {
      any_backward = any_backward || record.at.phase == phase::kBackward;
      if (const auto* model = model_in(record); model && model->text("wrapper") == "watched")
        return "updates are those of PyTorch's optimizers, not what a program changes itself";
    }
  return any_backward ? ""
                      : "a program may change parameters itself, by evolution strategies say: "
                        "lockstep_recorder.watch(model) names them";
}

// DistributedDataParallel's exception of a forward after a backward that it could not finish.
bool left_a_reduction_unfinished(const Rank& rank) {
  return rank.history.ending.why.find("Expected to have finished reduction") != std::string::npos;
}

// The moment of the rank's last backward, or of its last record where it has none.
Moment last_backward(const Rank& rank) {
  auto at = rank.history.last;
  for (const auto& record : rank.records)
    if (const auto* fact = fact_in(record, fact::kBackward)) at = record.at;
  return at;
}

// The causes of PyTorch's exceptions that name a symptom alone.
Details known_cause(const Rank& rank) {
  const auto& why = rank.history.ending.why;
  const auto has = [&](const char* words) { return why.find(words) != std::string::npos; };
  if (has("modified by an inplace operation")) {
    for (const auto& event : rank.history.events)
      if (const auto* is = std::get_if<Collective>(&event.what); is && is->op == "ddp_buffers")
        return {Cause{"a second forward of " + changed_buffers(rank) +
                      ", in place, which the graph of the first one had saved: one forward for "
                      "both batches, or broadcast_buffers=False"}};
    return {
        Cause{"the program itself changed what the graph had saved; no buffers were broadcast"}};
  }
  if (left_a_reduction_unfinished(rank))
    if (auto replaced = replaced_after_wrapping(rank, ""); !replaced.empty()) return replaced;
  if (auto cause = usual_cause_of_exception(why); !cause.empty()) return {Cause{std::move(cause)}};
  return {};
}

}  // namespace

size_t updates_of(const Rank& rank) {
  size_t count = 0;
  for (const auto& record : rank.records) {
    const auto* fact = std::get_if<Fact>(&record.what);
    count += fact && is_optimizer(fact->name) ? 1 : 0;
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

Details how_ranks_ended(const RecordedRun& run) {
  constexpr size_t kMost = 12;
  Details details{"how the ranks ended:"};
  for (size_t rank = 0; rank < std::min(run.ranks.size(), kMost); ++rank)
    details.push_back("  " + rank_text(run.ranks[rank]) + " " + how_it_ended(run.ranks[rank]));
  if (run.ranks.size() > kMost)
    details.push_back("  and " + counted(run.ranks.size() - kMost, "rank") + " more");
  return details;
}

bool ended_badly(const Rank& rank) {
  const auto kind = rank.history.ending.kind;
  return kind == Kind::threw || kind == Kind::exited || kind == Kind::signalled;
}

bool gave_up_waiting(const Rank& rank) {
  const auto& why = rank.history.ending.why;
  return ended_badly(rank) &&
         (was_waiting(rank) ||
          std::any_of(kOfPeers.begin(), kOfPeers.end(),
                      [&](const char* words) { return why.find(words) != std::string::npos; }));
}

bool all_returned(const RecordedRun& run) {
  return std::all_of(run.ranks.begin(), run.ranks.end(),
                     [](const Rank& rank) { return rank.history.ending.kind == Kind::returned; });
}

Judgement ranks_record_whole_run(const RecordedRun& run) {
  Judgement judgement{.compared = counted(run.ranks.size(), "rank"), .remarks = not_recorded(run)};
  if (const auto* lost = lost_before(first_that_failed(run), run)) {
    judgement.add(
        Found{{"", "lost", rank_text(*lost),
               rank_text(*lost) + " " + how_it_ended(*lost) + ", and its peers waited for it",
               how_ranks_ended(run)},
              lost->history.last});
    return judgement;
  }
  if (const auto* failed = first_that_failed(run)) {
    auto details = gave_up_waiting(*failed) ? uneven_batches(run) : Details();
    if (details.empty()) details = known_cause(*failed);
    details += how_ranks_ended(run);
    // Gradients that such a backward left were not averaged.
    judgement.add(Found{
        {"", std::string(name_of(failed->history.ending.kind)), rank_text(*failed),
         rank_text(*failed) + " " + how_it_ended(*failed), std::move(details)},
        left_a_reduction_unfinished(*failed) ? last_backward(*failed) : failed->history.last});
    judgement.is_victim = gave_up_waiting(*failed);
    return judgement;
  }
  for (const auto& rank : run.ranks)
    if (const auto text = another_world(rank); !text.empty())
      judgement.findings.push_back({"", "trains_alone", rank_text(rank), text});
  size_t updates = 0;
  for (const auto& rank : run.ranks) updates += updates_of(rank);
  if (updates == 0 && updates_by_itself(run) && why_not_by_hand(run).empty())
    judgement.remarks.push_back(
        {"", "updates_by_itself", "",
         "no optimizer made an update: the program changes its parameters itself, which are "
         "compared as each forward finds them"});
  else if (updates == 0 && all_returned(run)) {
    auto details = how_ranks_ended(run);
    const auto why = why_no_update(run);
    judgement.is_certain = why.empty();
    if (!why.empty()) details.push_back(why);
    judgement.findings.push_back({"", "vacuous", "", "no rank recorded an update", details});
  }
  if (!judgement.findings.empty()) return judgement;
  for (const auto& rank : run.ranks)
    if (const auto kind = rank.history.ending.kind; kind != Kind::returned) {
      judgement.findings.push_back({"", std::string(name_of(kind)), rank_text(rank),
                                    rank_text(rank) + " " + how_it_ended(rank),
                                    how_ranks_ended(run)});
      judgement.is_certain = false;
      break;
    }
  return judgement;
}

}  // namespace lockstep::recorded
