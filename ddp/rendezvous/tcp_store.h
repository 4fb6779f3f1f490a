#pragma once

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <utility>

namespace lockstep {

// The TCPStore behind `store`, whose server may be stopped or gone: its client then waits for ever.
// Null if it is no TCPStore. Local.
inline c10::intrusive_ptr<c10d::TCPStore> tcp_store_in(c10::intrusive_ptr<c10d::Store> store) {
  while (auto* const prefix = dynamic_cast<c10d::PrefixStore*>(store.get())) {
    store = prefix->getUnderlyingStore();
  }
  // c10::dynamic_intrusive_pointer_cast would never let go of a store that is no TCPStore.
  auto* const tcp = dynamic_cast<c10d::TCPStore*>(store.get());
  return tcp ? c10::intrusive_ptr<c10d::TCPStore>::reclaim_copy(tcp) : nullptr;
}

}  // namespace lockstep
