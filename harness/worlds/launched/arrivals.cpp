#include "harness/worlds/launched/arrivals.h"

#include "harness/verdict/trace.h"

#include <algorithm>
#include <set>

namespace lockstep {

namespace {

// The first two that differ in what `of` returns.
template <class Of>
std::string difference(const std::string& what, const std::vector<Arrival>& arrivals,
                       const Of& of) {
  for (const auto& each : arrivals)
    if (of(each) != of(arrivals.front()))
      return "the processes do not agree on " + what + ": rank " +
             std::to_string(arrivals.front().rank) + " has " + of(arrivals.front()) +
             ", and rank " + std::to_string(each.rank) + " has " + of(each);
  return "";
}

}  // namespace

std::string text_of(const Arrival& arrival) {
  return to_wire(arrival);
}

Arrival arrival_in(const std::string& text) {
  return from_wire<Arrival>(text, "an arrival at the rendezvous");
}

std::string problem_with(std::vector<Arrival> arrivals) {
  std::stable_sort(arrivals.begin(), arrivals.end(),
                   [](const Arrival& a, const Arrival& b) { return a.rank < b.rank; });
  const auto twice =
      std::adjacent_find(arrivals.begin(), arrivals.end(),
                         [](const Arrival& a, const Arrival& b) { return a.rank == b.rank; });
  if (twice != arrivals.end())
    return "rank " + std::to_string(twice->rank) +
           " has arrived here before: two processes have this rank, two runs use one place, or "
           "the store was used by an earlier run. Give every process a rank, and every run a "
           "place, of its own";
  const auto sizes = difference("the world size", arrivals,
                                [](const Arrival& each) { return std::to_string(each.size); });
  if (!sizes.empty()) return sizes;
  const auto versions =
      difference("the version", arrivals, [](const Arrival& each) { return each.version; });
  if (!versions.empty()) return versions;
  const auto secrets = difference("LOCKSTEP_SECRET", arrivals, [](const Arrival& each) {
    return std::string(each.has_secret ? "one" : "none");
  });
  return secrets + (secrets.empty() ? "" : ": give all processes of the campaign the same one");
}

std::string absence_among(const std::vector<Arrival>& arrivals, int size) {
  std::set<int> came;
  for (const auto& each : arrivals) came.insert(each.rank);
  std::vector<int> absent;
  for (int rank = 0; rank < size; ++rank)
    if (!came.contains(rank)) absent.push_back(rank);
  if (absent.empty()) return "";
  return "these ranks did not come: " + ranges_text(absent) +
         " (these did: " + ranges_text({came.begin(), came.end()}) + ")";
}

}  // namespace lockstep
