#include "harness/worlds/gloo/served_store.h"

#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <fcntl.h>

namespace lockstep {

struct ServedStore::Store {
  c10::intrusive_ptr<c10d::TCPStore> is;
};

ServedStore::ServedStore(const std::string& address, const ListeningSocket& listener)
    : port_(listener.port) {
  ask_for_no_names();
  c10d::TCPStoreOptions options;
  options.isServer = true;
  options.port = static_cast<uint16_t>(listener.port);
  options.waitWorkers = false;
  // The store closes the descriptor it receives.
  options.masterListenFd = checked(fcntl(listener.socket.number(), F_DUPFD_CLOEXEC, 0), "a socket");
  store_ = std::make_unique<Store>(Store{c10::make_intrusive<c10d::TCPStore>(address, options)});
}

ServedStore::~ServedStore() = default;

void ServedStore::set(const std::string& key) {
  store_->is->set(key, std::vector<uint8_t>{1});
}

}  // namespace lockstep
