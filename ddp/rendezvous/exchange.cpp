#include "ddp/rendezvous/exchange.h"

#include "ddp/base/disagreement.h"

#include <algorithm>
#include <exception>
#include <set>

namespace lockstep {

namespace {

using std::chrono::milliseconds;

std::string read(c10d::Store& store, const std::string& key) {
  const std::vector<std::uint8_t> bytes = store.get(key);
  return {bytes.begin(), bytes.end()};
}

std::string arrivals_key(const std::string& name) {
  return name + "/arrivals";
}

std::string text_key(const std::string& name, std::int64_t arrival) {
  return name + "/text/" + std::to_string(arrival);
}

std::string result_key(const std::string& name) {
  return name + "/result";
}

// A wait that times out is an exception, for which c10d prints two warnings: no way to poll.
bool appears(c10d::Store& store, const std::string& key, Deadline deadline) {
  try {
    store.wait({key}, time_left(deadline));
    return true;
  } catch (const std::exception&) {
    return store.check({key});
  }
}

// The first result written stays.
void end(c10d::Store& store, const std::string& name) {
  std::vector<std::string> entries;
  const std::int64_t arrivals = store.add(arrivals_key(name), 0);
  for (std::int64_t arrival = 1; arrival <= arrivals; ++arrival) {
    const std::string key = text_key(name, arrival);
    // A process may have died before it wrote its text.
    if (store.check({key})) entries.push_back(read(store, key));
  }
  store.compareSet(result_key(name), std::string(), pack(entries));
}

Exchanged result_for(c10d::Store& store, const std::string& name, std::int64_t own_arrival) {
  Exchanged result;
  for (const std::string& packed : unpack(read(store, result_key(name)))) {
    const std::vector<std::string> entry = unpack(packed);
    result.has_own |= entry.at(0) == std::to_string(own_arrival);
    result.entries.push_back({.rank = std::stoi(entry.at(1)), .text = entry.at(2)});
  }
  return result;
}

}  // namespace

std::vector<int> Exchanged::present() const {
  std::set<int> ranks;
  for (const Entry& entry : entries) ranks.insert(entry.rank);
  return {ranks.begin(), ranks.end()};
}

std::vector<int> Exchanged::missing(int world_size) const {
  const std::vector<int> here = present();
  std::vector<int> ranks;
  for (int rank = 0; rank < world_size; ++rank)
    if (!std::binary_search(here.begin(), here.end(), rank)) ranks.push_back(rank);
  return ranks;
}

Exchanged exchange(c10d::Store& store, const std::string& name, const RankAndSize& position,
                   const std::string& text, Deadline deadline) {
  const std::int64_t arrival = store.add(arrivals_key(name), 1);
  const std::string rank = std::to_string(position.rank);
  store.set(text_key(name, arrival), pack({std::to_string(arrival), rank, text}));
  const bool is_last = store.add(name + "/texts", 1) >= position.world_size;
  if (is_last || !appears(store, result_key(name), deadline)) end(store, name);
  return result_for(store, name, arrival);
}

std::optional<Exchanged> result_of_exchange(c10d::Store& store, const std::string& name) {
  if (!store.check({result_key(name)})) return std::nullopt;
  return result_for(store, name, 0);
}

void stay_until_read(c10d::Store& store, const std::string& name, int rank, std::int64_t expected) {
  constexpr milliseconds kLongestStay{2000};
  constexpr milliseconds kLaterThanOthers{100};
  const std::string readers = name + "/readers";
  try {
    store.add(readers, 1);
    std::int64_t read = 0;
    poll_until(deadline_in(kLongestStay), [&] {
      read = store.add(readers, 0);
      return read >= std::max(expected, store.add(arrivals_key(name), 0));
    });
    if (rank == 0 && read > 1) poll_until(deadline_in(kLaterThanOthers), [] { return false; });
  } catch (const std::exception&) {
    // The process that hosted the store has exited, and this one has read the result.
  }
}

}  // namespace lockstep
