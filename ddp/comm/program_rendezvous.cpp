#include "ddp/comm/program_rendezvous.h"

#include "ddp/base/disagreement.h"

#include <algorithm>

namespace lockstep {

namespace {

const std::string kBegins = "begins", kIsLeft = "is left";

std::string count_key(int rank) {
  return "lockstep/program/count of " + std::to_string(rank);
}

std::string presence_key(int rank) {
  return "lockstep/program/there/" + std::to_string(rank);
}

std::string confirmation_key(const std::string& attempt, int rank) {
  return "lockstep/program/" + attempt + "/" + std::to_string(rank);
}

std::string result_key(const std::string& attempt) {
  return "lockstep/program/" + attempt + "/result";
}

// The number of the attempt where all ranks have come as often; else a text of its own.
std::string name_of(const std::vector<std::int64_t>& counts) {
  const bool are_equal =
      std::all_of(counts.begin(), counts.end(), [&](auto each) { return each == counts.front(); });
  if (are_equal) return std::to_string(counts.front() / 2);
  std::string text;
  for (const std::int64_t each : counts) text += std::to_string(each) + ' ';
  return "of " + std::to_string(fingerprint(text));
}

bool is_there(std::int64_t count) {
  return count % 2 != 0;
}

std::vector<std::uint8_t> bytes_of(const std::string& text) {
  return {text.begin(), text.end()};
}

}  // namespace

ProgramRendezvous::ProgramRendezvous(c10d::Store& store, int rank, int world_size)
    : store_(store), rank_(rank), world_size_(world_size) {
  my_count_ = store_.add(count_key(rank_), 1);
  // A process may have left with an exception of the store's.
  if (!is_there(my_count_)) my_count_ = store_.add(count_key(rank_), 1);
  store_.set(presence_key(rank_), bytes_of("there"));
}

ProgramRendezvous::~ProgramRendezvous() {
  try {
    store_.deleteKey(presence_key(rank_));
    store_.add(count_key(rank_), 1);
    if (has_begun_) {
      store_.deleteKey(confirmation_key(confirmed_, rank_));
      return;
    }
    if (!confirmed_.empty()) leave_attempt(confirmed_);
    // A peer may have seen this rank in the moment before, and confirm that state next.
    std::vector<std::int64_t> seen = counts();
    seen[static_cast<std::size_t>(rank_)] = my_count_;
    leave_attempt(name_of(seen));
  } catch (const std::exception&) {
    // The store is gone, and with it every attempt.
  }
}

// The first result stays.
void ProgramRendezvous::leave_attempt(const std::string& name) {
  store_.compareSet(result_key(name), {}, bytes_of(kIsLeft));
}

std::vector<std::int64_t> ProgramRendezvous::counts() {
  std::vector<std::int64_t> all;
  for (int rank = 0; rank < world_size_; ++rank) all.push_back(store_.add(count_key(rank), 0));
  return all;
}

bool ProgramRendezvous::appear(const std::vector<std::string>& keys, Deadline deadline) {
  try {
    store_.wait(keys, time_left(deadline));
    return true;
  } catch (const c10::DistNetworkError&) {
    throw;
  } catch (const std::exception&) {
    return store_.check(keys);
  }
}

void ProgramRendezvous::name_the_missing(const std::function<bool(int rank)>& has_come) const {
  std::vector<int> came, absent;
  for (int rank = 0; rank < world_size_; ++rank)
    (rank == rank_ || has_come(rank) ? came : absent).push_back(rank);
  throw RanksMissing(absence(absent, came));
}

std::string ProgramRendezvous::attempt(Deadline deadline) {
  const std::vector<std::int64_t> at_first = counts();
  std::vector<std::string> presences;
  for (int rank = 0; rank < world_size_; ++rank) presences.push_back(presence_key(rank));
  for (;;) {
    if (!appear(presences, deadline)) {
      // A rank that came later may have reached its own deadline, and left.
      const std::vector<std::int64_t> now = counts();
      name_the_missing([&](int rank) {
        const auto place = static_cast<std::size_t>(rank);
        return is_there(now[place]) || now[place] > at_first[place];
      });
    }
    const std::vector<std::int64_t> seen = counts();
    if (!std::all_of(seen.begin(), seen.end(), is_there)) continue;
    confirmed_ = name_of(seen);
    store_.set(confirmation_key(confirmed_, rank_), bytes_of("confirmed"));
    if (store_.add(result_key(confirmed_) + "/confirmations", 1) == world_size_)
      store_.compareSet(result_key(confirmed_), {}, bytes_of(kBegins));
    if (!appear({result_key(confirmed_)}, deadline))
      name_the_missing(
          [&](int rank) { return store_.check({confirmation_key(confirmed_, rank)}); });
    has_begun_ = store_.get(result_key(confirmed_)) == bytes_of(kBegins);
    if (has_begun_) return confirmed_;
  }
}

}  // namespace lockstep
