#include "ddp/rendezvous/rendezvous.h"

#include "ddp/errors.h"
#include "ddp/rendezvous/exchange.h"

#include <algorithm>
#include <exception>
#include <stdexcept>

namespace lockstep {

namespace {

// Note [A rendezvous is two exchanges]
// In the first exchange each rank sends its description. A rank that arrived in an earlier run, and
// ended there, has left the same traces as one that is here now. So all ranks whose text is in the
// result confirm it in a second exchange: traces of an earlier run hold a second result only if all
// of its ranks had arrived, and then no rank of this run is in the first. A process that is not in
// the first result sends its description in the second exchange, or in a third if that has ended
// too: its rank arrived twice.
const std::string kArrival = "lockstep/arrival";
const std::string kConfirmation = "lockstep/confirmation";
const std::string kLate = "lockstep/late";

const std::string kFirst = "lockstep/first_arrival";
const std::string kHere = "lockstep/rank_is_here/";
const std::string kLeft = "lockstep/refused_and_left";

struct Arrival {
  std::size_t rank = 0;
  RankDescription description;
  std::string place;
};
using Arrivals = std::vector<Arrival>;

// Adds `more`, in the order of ranks. An empty text confirms an arrival that is there already.
Arrivals with(Arrivals arrivals, const std::vector<Exchanged::Entry>& more) {
  for (const auto& [rank, text] : more) {
    if (text.empty()) continue;
    const std::vector<std::string> parts = unpack(text);
    arrivals.push_back({static_cast<std::size_t>(rank), decode(parts.at(0)), parts.at(1)});
  }
  std::stable_sort(arrivals.begin(), arrivals.end(),
                   [](const Arrival& a, const Arrival& b) { return a.rank < b.rank; });
  return arrivals;
}

// Why the rendezvous of these arrivals fails, or nothing. Depends on its argument alone, so that
// all ranks that read one result report the same sentence.
std::string problem_with(const Arrivals& arrivals) {
  std::vector<std::size_t> ranks;
  std::vector<RankDescription> descriptions;
  for (const auto& [rank, description, place] : arrivals) {
    if (!ranks.empty() && ranks.back() == rank) {
      return "rank " + std::to_string(rank) +
             " has arrived here before: two processes have this rank, two runs use one place, or "
             "the store was used by an earlier run (a stale file?). Give every process a rank, and "
             "every run a store, of its own";
    }
    ranks.push_back(rank);
    descriptions.push_back(description);
  }
  for (const auto& [rank, description, place] : arrivals) {
    if (description.validation_error)
      return "rank " + std::to_string(rank) + " cannot take part: " + *description.validation_error;
  }
  return find_disagreement(ranks, descriptions).value_or("");
}

std::vector<std::string> places_of(const Arrivals& arrivals) {
  std::vector<std::string> places;
  for (const Arrival& each : arrivals) places.push_back(each.place);
  return places;
}

// The deadline of a rank that knows that the rendezvous will fail.
Deadline soon(Deadline deadline) {
  return std::min(deadline, deadline_in(std::chrono::seconds(1)));
}

class Rendezvous {
 public:
  Rendezvous(c10d::Store& store, const RankAndSize& position, const CheckPlaces& check_places)
      : store_(store), position_(position), check_places_(check_places) {}

  std::vector<std::string> meet(const std::string& own, Deadline deadline) {
    const bool is_hopeless = knows_problem(own);
    const Exchanged came =
        exchange(store_, kArrival, position_, own, is_hopeless ? soon(deadline) : deadline);
    const Arrivals arrivals = with({}, came.entries);
    // A process that arrived after the others' rendezvous may have been given another world size.
    const int world_size = std::stoi(arrivals.at(0).description.properties.at(0).value);
    const std::vector<int> absent = came.missing(world_size);
    std::string problem = problem_with(arrivals);
    if (problem.empty() && absent.empty() && check_places_)
      problem = check_places_(places_of(arrivals));
    check(kArrival, came, problem, absent, absence(absent, came.present()));
    const Exchanged confirmed = exchange(store_, kConfirmation, position_, came.has_own ? "" : own,
                                         came.has_own ? deadline : soon(deadline));
    const std::vector<int> silent = confirmed.missing(world_size);
    check(kConfirmation, confirmed, problem_with(with(arrivals, confirmed.entries)), silent,
          "all ranks came, and these did not answer: " + listed(silent));
    if (came.has_own) return places_of(arrivals);
    const Exchanged late = exchange(store_, kLate, position_, own, soon(deadline));
    refuse(kLate, 1, problem_with(with(arrivals, late.entries)));
  }

 private:
  // True if this rank knows, without waiting for the others, that the rendezvous will fail.
  bool knows_problem(const std::string& own) {
    const std::string rank = std::to_string(position_.rank);
    const auto first = unpack(store_.compareSet(kFirst, std::string(), pack({rank, own})));
    const bool is_second = store_.add(kHere + rank, 1) > 1;
    std::vector<Exchanged::Entry> both = {{position_.rank, own}};
    if (first.at(0) != rank) both.push_back({std::stoi(first.at(0)), first.at(1)});
    return is_second || !problem_with(with({}, both)).empty();
  }

  // Throws unless all have arrived without a problem.
  void check(const std::string& name, const Exchanged& result, std::string problem,
             const std::vector<int>& missing, const std::string& who_is_missing) {
    const bool timed_out = problem.empty() && !missing.empty();
    if (problem.empty() && !timed_out) return;
    if (timed_out) problem = who_is_missing;
    if (!result.has_own && (timed_out || store_.check({kLeft}))) {
      refuse(name, 1,
             "those that came here before have given up: " + problem +
                 ". Who comes now is late, or the store was used by an earlier run (a stale "
                 "file?): give every run a store of its own");
    }
    if (!timed_out) refuse(name, position_.world_size, problem);
    // A rank that has not arrived by the deadline is not expected any more.
    stay_until_read(store_, name, position_.rank, 1);
    throw std::runtime_error(problem);
  }

  [[noreturn]] void refuse(const std::string& name, int expected, const std::string& problem) {
    stay_until_read(store_, name, position_.rank, expected);
    try {
      store_.set(kLeft, std::string("1"));
    } catch (const std::exception&) {
      // The process that hosted the store has exited.
    }
    throw DisagreementError(problem);
  }

  c10d::Store& store_;
  const RankAndSize position_;
  const CheckPlaces& check_places_;
};

}  // namespace

std::vector<std::string> rendezvous_in(c10d::Store& store, const RankAndSize& position,
                                       std::chrono::milliseconds timeout,
                                       const Introduction& introduction,
                                       const CheckPlaces& check_places) {
  RankDescription description = introduction.description;
  description.properties.insert(description.properties.begin(),
                                {"the world size", std::to_string(position.world_size)});
  return Rendezvous(store, position, check_places)
      .meet(pack({encode(description), introduction.place}), deadline_in(timeout));
}

}  // namespace lockstep
