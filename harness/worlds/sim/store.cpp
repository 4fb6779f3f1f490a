#include "harness/worlds/sim/store.h"

#include "harness/base/text.h"

#include <torch/torch.h>

#include <algorithm>

namespace lockstep::sim {

namespace {

using Milliseconds = std::chrono::milliseconds;

// The cost of an operation on the store, during which other ranks run: a rank may poll until a
// value is there.
constexpr Nanoseconds kRoundTrip = std::chrono::microseconds(50);

bool holds(const StoreContents& contents, const std::string& key) {
  return contents.values.contains(key) || contents.queues.contains(key);
}

}  // namespace

Store::Store(std::shared_ptr<StoreContents> contents, Scheduler& scheduler, Milliseconds timeout)
    : c10d::Store(timeout), contents_(std::move(contents)), scheduler_(scheduler) {}

c10::intrusive_ptr<c10d::Store> Store::clone() {
  return c10::make_intrusive<Store>(contents_, scheduler_, timeout_);
}

StoreContents& Store::contents() const {
  scheduler_.require_thread_of_rank();
  return *contents_;
}

void Store::wait_for_last_change_of(const std::string& key) {
  const auto last = contents().changed_at.find(key);
  if (last == contents().changed_at.end()) return;
  scheduler_.advance(std::max(last->second - scheduler_.now(), Nanoseconds::zero()));
}

// Call it once `key` has changed; other ranks may have run when it returns.
void Store::changed(const std::string& key) {
  wait_for_last_change_of(key);
  contents().changed_at[key] = scheduler_.now();
  const auto awaited = contents().awaited.find(key);
  if (awaited != contents().awaited.end()) {
    scheduler_.happen(*awaited->second, scheduler_.now());
    contents().awaited.erase(awaited);
  }
  scheduler_.stand_back(kRoundTrip, [key] { return "the store, having changed '" + key + "'"; });
}

// Blocks until `key` may have changed.
void Store::wait_for_change_of(const std::string& key, Nanoseconds deadline) {
  auto& awaited = contents().awaited[key];
  if (!awaited) awaited = std::make_shared<Event>();
  const auto event = awaited;  // the rank that triggers it forgets it
  const auto left = deadline - scheduler_.now();
  const auto what = [key] { return "the store's key '" + key + "', which nobody sets"; };
  if (left <= Nanoseconds::zero() || !scheduler_.wait(*event, what, left))
    C10_THROW_ERROR(DistStoreError, "waited in vain for the store's key '" + key + "'");
}

void Store::set(const std::string& key, const Value& value) {
  contents().values[key] = value;
  changed(key);
}

// As c10d's stores do: a missing key counts as equal to an empty `current`, and is set.
Store::Value Store::compareSet(const std::string& key, const Value& current, const Value& wanted) {
  const auto found = contents().values.find(key);
  const bool is_there = found != contents().values.end();
  if (!is_there && !current.empty()) return current;
  if (is_there && found->second != current) {
    const Value other = found->second;
    changed(key);
    return other;
  }
  set(key, wanted);
  return wanted;
}

Store::Value Store::get(const std::string& key) {
  wait({key});
  return contents().values.at(key);
}

int64_t Store::add(const std::string& key, int64_t value) {
  auto& stored = contents().values[key];
  const int64_t sum =
      (stored.empty() ? 0 : std::stoll(std::string(stored.begin(), stored.end()))) + value;
  const std::string text = std::to_string(sum);
  stored.assign(text.begin(), text.end());
  changed(key);
  return sum;
}

bool Store::deleteKey(const std::string& key) {
  const bool was_there = contents().values.erase(key) + contents().queues.erase(key) > 0;
  changed(key);
  return was_there;
}

bool Store::check(const std::vector<std::string>& keys) {
  for (const auto& key : keys) wait_for_last_change_of(key);
  const bool all = std::all_of(keys.begin(), keys.end(),
                               [&](const auto& key) { return holds(contents(), key); });
  scheduler_.stand_back(kRoundTrip,
                        [keys] { return "a look at the store's " + joined(keys, ", "); });
  return all;
}

int64_t Store::getNumKeys() {
  return static_cast<int64_t>(contents().values.size());
}

void Store::wait(const std::vector<std::string>& keys) {
  wait(keys, timeout_);
}

void Store::wait(const std::vector<std::string>& keys, const Milliseconds& timeout) {
  const auto deadline = scheduler_.now() + timeout;
  for (const auto& key : keys) {
    while (!holds(contents(), key)) wait_for_change_of(key, deadline);
    wait_for_last_change_of(key);
  }
}

void Store::append(const std::string& key, const Value& value) {
  auto& stored = contents().values[key];
  stored.insert(stored.end(), value.begin(), value.end());
  changed(key);
}

std::vector<Store::Value> Store::multiGet(const std::vector<std::string>& keys) {
  wait(keys);
  std::vector<Value> values;
  for (const auto& key : keys) values.push_back(contents().values.at(key));
  return values;
}

void Store::multiSet(const std::vector<std::string>& keys, const std::vector<Value>& values) {
  TORCH_CHECK(keys.size() == values.size(), "multiSet was given ", keys.size(), " keys and ",
              values.size(), " values");
  for (size_t i = 0; i < keys.size(); ++i) contents().values[keys[i]] = values[i];
  for (const auto& key : keys) changed(key);
}

void Store::queuePush(const std::string& key, const Value& value) {
  contents().queues[key].push_back(value);
  changed(key);
}

Store::Value Store::queuePop(const std::string& key, bool block) {
  const auto is_empty = [&] { return contents().queues[key].empty(); };
  const auto deadline = scheduler_.now() + timeout_;
  while (block && is_empty()) wait_for_change_of(key, deadline);
  wait_for_last_change_of(key);
  if (is_empty()) C10_THROW_ERROR(DistQueueEmptyError, "the store's queue '" + key + "' is empty");
  auto& queue = contents().queues[key];
  Value first = std::move(queue.front());
  queue.pop_front();
  return first;
}

int64_t Store::queueLen(const std::string& key) {
  wait_for_last_change_of(key);
  const auto length = static_cast<int64_t>(contents().queues[key].size());
  scheduler_.stand_back(kRoundTrip, [key] { return "a look at the store's queue '" + key + "'"; });
  return length;
}

std::vector<std::string> Store::listKeys() {
  std::vector<std::string> keys;
  for (const auto& [key, value] : contents().values) keys.push_back(key);
  return keys;
}

}  // namespace lockstep::sim
