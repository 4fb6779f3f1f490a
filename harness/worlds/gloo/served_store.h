// A c10d::TCPStore that this process serves, for ranks in other processes. No torch: the code that
// starts the ranks does not need it.
#pragma once

#include "harness/process/network.h"

#include <memory>
#include <string>

namespace lockstep {

// Note [A name for every connection]
// c10d looks up the name of each address that a store's client connects to, for a log line that it
// mostly does not print. Where the name service is slow or does not answer, that takes five seconds
// a connection (seen: half of all cases), and everywhere it costs a shared service one query a rank
// and case. So getnameinfo is in the executable, found before libc's: after the first call of this
// function a caller that accepts numbers gets numbers. Forked processes inherit that.
void ask_for_no_names();

class ServedStore {
 public:
  // Serves from construction to destruction, on its own thread, at `address`, where `listener`
  // listens. Clients that connected earlier wait until then. Throws what c10d throws.
  ServedStore(const std::string& address, const ListeningSocket& listener);
  ~ServedStore();
  ServedStore(const ServedStore&) = delete;
  ServedStore& operator=(const ServedStore&) = delete;

  int port() const { return port_; }
  void set(const std::string& key);

 private:
  struct Store;
  int port_ = 0;
  std::unique_ptr<Store> store_;
};

}  // namespace lockstep
