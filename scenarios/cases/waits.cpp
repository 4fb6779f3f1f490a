#include "scenarios/cases/waits.h"

#include "harness/base/values.h"
#include "scenarios/cases/devices.h"
#include "scenarios/cases/sentences.h"

#include <chrono>
#include <regex>

namespace lockstep::scenarios {

namespace {

constexpr const char* kGaveUp = "gave up in time";
constexpr int64_t kLateMs = 10'000;

// False for an error that says which timeout is over, and says another one.
bool names(const std::string& error, int64_t timeout_ms, TimeoutOf whose) {
  const auto said = error.find("within the timeout of ");
  const auto right =
      "within the timeout of " + std::to_string(timeout_ms) +
      (whose == TimeoutOf::call ? " ms (the option timeout)" : " ms (InitOptions::timeout)");
  return said == std::string::npos || error.compare(said, right.size(), right) == 0;
}

}  // namespace

void record_wait_for(int late, int64_t timeout_ms, const LateCall& call, RankContext& here,
                     TimeoutOf whose) {
  const auto key = [](int rank) { return "rank " + std::to_string(rank) + " has given up"; };
  const auto once = [&] {
    call([&] {
      std::vector<std::string> peers;
      for (int rank = 0; rank < here.size(); ++rank)
        if (rank != late) peers.push_back(key(rank));
      if (here.rank() == late) here.store()->wait(peers);
    });
  };
  auto error = error_of(once);
  // Where no host waits for a device, a later call finds the error.
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(kLateMs);
  while (here.rank() != late && !host_waits(here) && error.empty() &&
         std::chrono::steady_clock::now() < end)
    error = error_of(once);
  // A rank that ended before the late one came would leave its own collective behind.
  here.store()->set(key(here.rank()), std::string("yes"));
  here.store()->wait({key(late)});
  int64_t waited = 0;  // as the error says
  std::smatch found;
  if (std::regex_search(error, found, std::regex("failed after ([0-9]+) ms")))
    waited = std::stoll(found[1]);
  const bool is_in_time =
      timeout_ms <= waited && waited < kLateMs && names(error, timeout_ms, whose);
  here.record(kGaveUp, std::vector<int64_t>{here.rank() == late || is_in_time});
}

Findings gave_up_in_time(const char* rule, const Moment& at, const History& h) {
  const auto row = h.row(at, kGaveUp);
  for (size_t rank = 0; rank < row.by_rank.size(); ++rank)
    if (as_integers(row.by_rank[rank]).front() == 0)
      return {{rule,
               "did_not_wait_so_long",
               {at, "rank " + std::to_string(rank)},
               "rank " + std::to_string(rank) +
                   " did not give up once its timeout had passed, but before, later, or not at "
                   "all"}};
  return {};
}

}  // namespace lockstep::scenarios
