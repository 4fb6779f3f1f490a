// The store of a simulated world. A rank that waits for a key lets other ranks run. Operations on a
// key come one after another in virtual time too: a rank whose clock is behind the last change of a
// key that it reads or changes has waited for it.
#pragma once

#include "harness/worlds/sim/scheduler.h"

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <deque>
#include <map>
#include <memory>

namespace lockstep::sim {

// The state that all handles of one world's store share.
struct StoreContents {
  using Value = std::vector<uint8_t>;
  std::map<std::string, Value> values;
  std::map<std::string, std::deque<Value>> queues;
  std::map<std::string, std::shared_ptr<Event>> awaited;  // by key, for those that a rank awaits
  std::map<std::string, Nanoseconds> changed_at;          // by key, for those once set
};

class Store final : public c10d::Store {
 public:
  using Value = StoreContents::Value;
  using c10d::Store::compareSet;
  using c10d::Store::set;

  // `timeout` ends every wait with c10::DistStoreError. `scheduler` outlives it.
  Store(std::shared_ptr<StoreContents> contents, Scheduler& scheduler,
        std::chrono::milliseconds timeout);

  c10::intrusive_ptr<c10d::Store> clone() override;
  void set(const std::string& key, const Value& value) override;
  Value compareSet(const std::string& key, const Value& current, const Value& wanted) override;
  Value get(const std::string& key) override;
  int64_t add(const std::string& key, int64_t value) override;
  bool deleteKey(const std::string& key) override;
  bool check(const std::vector<std::string>& keys) override;
  int64_t getNumKeys() override;
  void wait(const std::vector<std::string>& keys) override;
  void wait(const std::vector<std::string>& keys,
            const std::chrono::milliseconds& timeout) override;
  void append(const std::string& key, const Value& value) override;
  std::vector<Value> multiGet(const std::vector<std::string>& keys) override;
  void multiSet(const std::vector<std::string>& keys, const std::vector<Value>& values) override;
  bool hasExtendedApi() const override { return true; }
  void queuePush(const std::string& key, const Value& value) override;
  Value queuePop(const std::string& key, bool block) override;
  int64_t queueLen(const std::string& key) override;
  std::vector<std::string> listKeys() override;

 private:
  StoreContents& contents() const;
  void wait_for_last_change_of(const std::string& key);
  void changed(const std::string& key);
  void wait_for_change_of(const std::string& key, Nanoseconds deadline);

  const std::shared_ptr<StoreContents> contents_;
  Scheduler& scheduler_;
};

}  // namespace lockstep::sim
