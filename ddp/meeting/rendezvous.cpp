#include "ddp/meeting/rendezvous.h"

#include "ddp/errors.h"
#include "ddp/meeting/attendance.h"
#include "ddp/meeting/outcome.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

namespace lockstep {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

const std::string kHere = "lockstep/rank_is_here/";
const std::string kWorldSize = "lockstep/world_size";
const std::string kVersion = "lockstep/version";
const std::string kBackends = "lockstep/backends";
const std::string kCount = "lockstep/ranks_here";
const std::string kAllCame = "lockstep/all_came";
const std::string kGo = "lockstep/rank_zero_saw_all";
const std::string kSawGo = "lockstep/rank_saw_rank_zero/";
const std::string kSawGoCount = "lockstep/ranks_that_saw_rank_zero";
const std::string kLeft = "lockstep/refused_and_left";
const std::string kSaid = "lockstep/said_by_rank/";
const std::string kAnswered = "lockstep/answer_of_rank_zero";

const std::string kLate = "late: ";  // begins an outcome that is no disagreement

std::string who_did_not_come(c10d::Store& store, int world_size) {
  const Attendance here(store, kHere, world_size);
  if (!here.absent.empty()) {
    return "these ranks did not come: " + listed(here.absent) +
           " (these did: " + listed(here.present) + ")";
  }
  const std::string all = "all ranks came, and nothing more was heard of these: ";
  if (!store.check({kGo})) return all + "0";
  return all + listed(Attendance(store, kSawGo, world_size).absent);
}

// One process that has come to a store to meet others.
class Visitor {
 public:
  Visitor(c10d::Store& store, const Standing& standing)
      : store_(store), standing_(standing), outcome_(store, "the_meeting", {kAllCame, kGo}) {
    outcome_.count_me_in();
  }

  void come_in(const Introduction& introduction) {
    leave_what_has_ended();
    const std::string own_size = std::to_string(standing_.world_size);
    const std::string size = first_at(kWorldSize, own_size);
    if (size != own_size) {
      refuse("the ranks were told different world sizes: " + name() + " a world of " + own_size +
             ", another rank one of " + size);
    }
    const std::string version = first_at(kVersion, introduction.version);
    if (version != introduction.version) {
      refuse("the ranks run different versions: " + name() + " " + introduction.version +
             ", another rank " + version);
    }
    compare_backends(introduction);
    if (!introduction.objection.empty())
      refuse(name() + " cannot take part: " + introduction.objection);
    if (store_.add(kHere + std::to_string(standing_.rank), 1) > 1) {
      refuse(name() +
             " has met here before: two processes have this rank, two runs meet at one place, or "
             "the store was used by an earlier run (a stale file?). Give every process a rank, "
             "and every run a store, of its own");
    }
    if (store_.add(kCount, 1) >= standing_.world_size) store_.set(kAllCame, bytes_of("1"));
  }

  // Note [Meeting in three steps]
  // A rank that came in an earlier run, and ended there, has left the same traces as one that is
  // here now. So rank 0 tells that it has seen all come, and every rank answers: traces of an
  // earlier run hold an answer only if all of its ranks had come, and then every rank of this one
  // finds its own trace and refuses. Otherwise somebody who lives is waited for, and refuses when
  // it comes.
  void meet(Clock::time_point deadline) {
    if (standing_.rank == 0) {
      wait_for(kAllCame, deadline);
      store_.set(kGo, bytes_of("1"));
    }
    wait_for(kGo, deadline);
    store_.set(kSawGo + std::to_string(standing_.rank), bytes_of("1"));
    if (store_.add(kSawGoCount, 1) >= standing_.world_size) outcome_.say(kNothingToTell);
    wait_for(outcome_.told(), deadline);
    if (const std::string outcome = outcome_.get(); outcome != kNothingToTell) leave(outcome);
  }

 private:
  std::string name() const { return "rank " + std::to_string(standing_.rank); }

  // What the first process has put there.
  std::string first_at(const std::string& key, const std::string& own) {
    return text_of(store_.compareSet(key, {}, bytes_of(own)));
  }

  // "cpu:gloo by default, since ...". The reasons may differ.
  void compare_backends(const Introduction& introduction) {
    const auto told = [](const std::string& backends, const std::string& because) {
      return backends + (because.empty() ? "" : " (" + because + ")");
    };
    const std::string first =
        first_at(kBackends, introduction.backends + "\n" + introduction.backends_because);
    const std::size_t end = first.find('\n');
    const std::string backends = first.substr(0, end);
    if (backends == introduction.backends) return;
    refuse("the ranks decided for different backends: " + name() + " for " +
           told(introduction.backends, introduction.backends_because) + ", another rank for " +
           told(backends, first.substr(end + 1)) +
           "; InitOptions::backend, equal on all ranks, leaves nothing to decide");
  }

  // Where everybody is looks on, or has gone.
  void wait_for(const std::string& key, Clock::time_point deadline) {
    if (!appears(store_, key, deadline))
      outcome_.say(kLate + who_did_not_come(store_, standing_.world_size));
  }

  // Those that came before were refused and are gone, or waited in vain and are about to leave.
  void leave_what_has_ended() {
    if (!outcome_.is_there()) return;
    const std::string reason = outcome_.get();
    const bool is_late = reason.starts_with(kLate);
    if (reason == kNothingToTell || (!is_late && !store_.check({kLeft}))) return;
    outcome_.stay(standing_.rank, 1);
    throw DisagreementError("those that came here before have given up: " +
                            (is_late ? reason.substr(kLate.size()) : reason) +
                            ". Who comes now is late, or the store was used by an earlier run (a "
                            "stale file?): give every run a store of its own");
  }

  // The others' reason where they have one already. Where they have met, the sentence is for this
  // process and those that come as late as it does.
  [[noreturn]] void refuse(const std::string& sentence) {
    const std::string reason = outcome_.say(sentence);
    if (reason != kNothingToTell) leave(reason);
    Outcome outcome(store_, "coming_late", {});
    const std::string first = outcome.say(sentence);
    outcome.stay(standing_.rank, 1, standing_.world_size);
    throw DisagreementError(first);
  }

  [[noreturn]] void leave(const std::string& reason) {
    const bool is_late = reason.starts_with(kLate);
    // Who has not come by the end of the time is not expected any more.
    outcome_.stay(standing_.rank, is_late ? 1 : standing_.world_size);
    if (is_late) throw std::runtime_error(reason.substr(kLate.size()));
    try {
      store_.set(kLeft, bytes_of("1"));
    } catch (const std::exception&) {
      // Whoever held the store has left.
    }
    throw DisagreementError(reason);
  }

  c10d::Store& store_;
  Standing standing_;
  Outcome outcome_;
};

}  // namespace

void meet_in(c10d::Store& store, const Standing& standing, milliseconds timeout,
             const Introduction& introduction) {
  const auto deadline = Clock::now() + timeout;
  Visitor visitor(store, standing);
  visitor.come_in(introduction);
  visitor.meet(deadline);
}

std::string ask_rank_zero(
    c10d::Store& store, const Standing& standing, milliseconds timeout, const std::string& said,
    const std::function<std::string(const std::vector<std::string>& said)>& answer) {
  const auto deadline = Clock::now() + timeout;
  const std::string gone = "all ranks came, and nothing more was heard of these: ";
  store.set(kSaid + std::to_string(standing.rank), bytes_of(said));
  if (standing.rank == 0) {
    std::vector<std::string> texts;
    for (int rank = 0; rank < standing.world_size; ++rank) {
      const std::string key = kSaid + std::to_string(rank);
      if (!appears(store, key, deadline)) {
        throw std::runtime_error(gone +
                                 listed(Attendance(store, kSaid, standing.world_size).absent));
      }
      texts.push_back(text_of(store.get(key)));
    }
    store.set(kAnswered, bytes_of(answer(texts)));
  }
  if (!appears(store, kAnswered, deadline)) throw std::runtime_error(gone + "0");
  const std::string answered = text_of(store.get(kAnswered));
  stay_until_read(store, kAnswered + "/readers", standing.rank, standing.world_size);
  return answered;
}

}  // namespace lockstep
