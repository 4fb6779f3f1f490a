#include "ddp/errors.h"
#include "ddp/init.h"
#include "ddp/rendezvous/launcher.h"

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <vector>

namespace lockstep {

namespace {

const std::string kHost = "lockstep/host_of_rank/";

int lower_ranks_on(const std::string& host, c10d::Store& store, int rank,
                   std::chrono::milliseconds timeout) {
  std::vector<std::string> keys;
  for (int lower = 0; lower < rank; ++lower) keys.push_back(kHost + std::to_string(lower));
  store.wait(keys, timeout);
  int count = 0;
  for (const std::string& key : keys) {
    const auto bytes = store.get(key);
    if (std::string(bytes.begin(), bytes.end()) == host) ++count;
  }
  return count;
}

}  // namespace

int local_rank(const c10d::ProcessGroup& group, std::chrono::milliseconds timeout) {
  const Launch launch = launch_from_environment(process_environment);
  const bool is_of_group =
      launch.position.rank == group.getRank() && launch.position.world_size == group.getSize();
  const auto known = is_of_group ? launch.local_rank : std::nullopt;
  if (group.getSize() == 1) return known.value_or(0);
  const auto store = group.getStore();
  if (known && !store) return *known;
  if (!store) throw UsageError("local_rank: the group has no store, and LOCAL_RANK is not set");
  const auto start = std::chrono::steady_clock::now();
  try {
    const std::string host = name_of_this_host();
    // A rank that knows its local rank sets this too: the others count it.
    store->set(kHost + std::to_string(group.getRank()), host);
    return known ? *known : lower_ranks_on(host, *store, group.getRank(), timeout);
  } catch (const UsageError&) {
    throw;
  } catch (const std::exception& error) {
    const auto waited = std::chrono::steady_clock::now() - start;
    throw CommunicationError(group.getRank(), "the exchange of host names", -1,
                             std::chrono::duration_cast<std::chrono::milliseconds>(waited),
                             first_line(error));
  }
}

}  // namespace lockstep
