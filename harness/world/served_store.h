// A c10d::TCPStore that this process serves, for ranks in other processes. No torch: who starts
// them need not know it.
#pragma once

#include "harness/process/network.h"

#include <memory>
#include <string>

namespace lockstep {

// Note [A name for every connection]
// c10d asks for the name of each address that a store's client connects to, for a line that it
// mostly does not print. Where the name service is slow or answers nothing, that takes five seconds
// a connection (seen: half of all cases), and everywhere it is a question a rank and case to a
// service that others use too. So getnameinfo is in the executable, found before libc's: from the
// first call of this on, who can do with numbers gets numbers. Processes that are forked inherit
// it.
void ask_for_no_names();

class ServedStore {
 public:
  // Serves from construction to destruction, on a thread of its own, at `address`, where `listener`
  // listens. Clients that connected earlier have waited. Throws what c10d throws.
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
