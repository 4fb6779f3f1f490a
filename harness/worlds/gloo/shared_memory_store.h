// A c10d store in memory that a world of forked ranks inherited: a rendezvous without files, ports
// or a server. A cold world takes half as long as with a FileStore.
//
// Keys and values are never changed in place: a new value is written beside the old one and takes
// effect by one store of an offset. So a rank killed at any instant, holding the lock, leaves every
// key with its old value or its new one; the lock itself is robust, and a waiting rank holds
// nothing. Memory is handed out and not taken back before reset(), except the value before last of
// each key.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <span>

namespace lockstep {

class SharedMemoryStore : public c10d::Store {
 public:
  // Makes `memory` an empty store. Nobody may be using it.
  static void reset(std::span<std::byte> memory);

  // Bytes of `memory` that stores have touched so far.
  static size_t used(std::span<std::byte> memory);

  // A handle on the store in `memory`, which was reset and outlives it. `timeout` ends every wait:
  // c10::DistStoreError, naming the keys that were missing.
  SharedMemoryStore(std::span<std::byte> memory, std::chrono::milliseconds timeout);

  using Store::compareSet;
  using Store::set;

  c10::intrusive_ptr<c10d::Store> clone() override;
  void set(const std::string& key, const std::vector<uint8_t>& value) override;
  std::vector<uint8_t> compareSet(const std::string& key, const std::vector<uint8_t>& current,
                                  const std::vector<uint8_t>& wanted) override;
  std::vector<uint8_t> get(const std::string& key) override;
  int64_t add(const std::string& key, int64_t value) override;
  bool deleteKey(const std::string& key) override;
  bool check(const std::vector<std::string>& keys) override;
  int64_t getNumKeys() override;
  void wait(const std::vector<std::string>& keys) override;
  void wait(const std::vector<std::string>& keys,
            const std::chrono::milliseconds& timeout) override;
  void append(const std::string& key, const std::vector<uint8_t>& value) override;
  std::vector<std::vector<uint8_t>> multiGet(const std::vector<std::string>& keys) override;
  void multiSet(const std::vector<std::string>& keys,
                const std::vector<std::vector<uint8_t>>& values) override;
  bool hasExtendedApi() const override { return true; }
  void queuePush(const std::string& key, const std::vector<uint8_t>& value) override;
  std::vector<uint8_t> queuePop(const std::string& key, bool block) override;
  int64_t queueLen(const std::string& key) override;
  std::vector<std::string> listKeys() override;

 private:
  std::span<std::byte> memory_;
};

}  // namespace lockstep
