#include "harness/worlds/forked/rendezvous.h"

#include "harness/worlds/gloo/shared_memory_store.h"

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

namespace lockstep {

namespace {

// Programs have their own keys in the store of their world.
const std::string kProgramsKeys = "program";
const std::string kReturned = "runner/returned";
const std::string kAllReturned = "runner/all returned";

c10::intrusive_ptr<c10d::Store> store_at(const RendezvousAtServer::Place& place,
                                         std::chrono::milliseconds patience) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(place.port);
  options.waitWorkers = false;
  options.timeout = patience;
  return c10::make_intrusive<c10d::TCPStore>(place.address, options);
}

}  // namespace

c10::intrusive_ptr<c10d::Store> RendezvousInMemory::open_store(
    std::chrono::milliseconds patience) const {
  return c10::make_intrusive<SharedMemoryStore>(store_, patience);
}

void RendezvousInMemory::wait_for_others(int size,
                                         std::chrono::steady_clock::time_point until) const {
  exit_barrier_.wait_for_others(size, until);
}

c10::intrusive_ptr<c10d::Store> RendezvousAtServer::open_store(
    std::chrono::milliseconds patience) const {
  return c10::make_intrusive<c10d::PrefixStore>(kProgramsKeys, store_at(place_, patience));
}

// Over a connection of its own: the program may have left a thread that waits on the other one.
void RendezvousAtServer::wait_for_others(int size,
                                         std::chrono::steady_clock::time_point until) const {
  const auto patience =
      std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
  try {
    const auto store = store_at(place_, patience);
    if (store->add(kReturned, 1) >= size) store->set(kAllReturned, std::vector<uint8_t>{1});
    store->wait({kAllReturned}, patience);
  } catch (const std::exception&) {
    // The runner is gone, or the time is up: no process is left to wait for.
  }
}

void call_off(ServedStore& store) {
  store.set(kAllReturned);
}

}  // namespace lockstep
