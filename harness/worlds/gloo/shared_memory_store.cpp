#include "harness/worlds/gloo/shared_memory_store.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <linux/futex.h>
#include <new>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace lockstep {

namespace {

using Bytes = std::vector<uint8_t>;
using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::milliseconds;

constexpr size_t kBuckets = 512;

// All places are offsets from the head; 0 is none.
struct Head {
  pthread_mutex_t mutex;
  std::atomic<uint32_t> generation;  // counts changes; waiters sleep on it
  uint64_t size;
  uint64_t used;  // everything from here on is free
  uint64_t buckets[kBuckets];
};
struct Entry {  // followed by the key
  uint64_t next;
  uint64_t value;  // 0: deleted
  uint64_t spare;  // a former value, to be overwritten; none if it equals `value`
  uint64_t key_length;
};
struct Value {  // followed by the bytes
  uint64_t capacity;
  uint64_t length;
};

Head& head_of(std::span<std::byte> memory) {
  return *reinterpret_cast<Head*>(memory.data());
}

std::string quoted(const std::vector<std::string>& keys) {
  std::string text;
  for (const auto& key : keys) text += (text.empty() ? "'" : ", '") + key + "'";
  return text;
}

// Holds the store's lock. A holder that died left a consistent store (see the header), so the next
// one simply continues.
class Lock {
 public:
  Lock(Head& head, Milliseconds patience) : mutex_(head.mutex) {
    timespec until{};
    clock_gettime(CLOCK_MONOTONIC, &until);
    const auto whole = std::chrono::duration_cast<std::chrono::seconds>(patience);
    until.tv_sec += whole.count();
    until.tv_nsec += std::chrono::nanoseconds(patience - whole).count();
    until.tv_sec += until.tv_nsec / 1'000'000'000;
    until.tv_nsec %= 1'000'000'000;
    const int error = pthread_mutex_clocklock(&mutex_, CLOCK_MONOTONIC, &until);
    if (error == EOWNERDEAD) {
      pthread_mutex_consistent(&mutex_);
    } else if (error != 0) {
      C10_THROW_ERROR(DistStoreError, "the store's lock was not to be had within " +
                                          std::to_string(patience.count()) +
                                          " ms: " + std::strerror(error));
    }
  }
  ~Lock() { pthread_mutex_unlock(&mutex_); }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  pthread_mutex_t& mutex_;
};

// The table itself; everything here needs the lock.
class KeyTable {
 public:
  explicit KeyTable(Head& head) : head_(head), base_(reinterpret_cast<std::byte*>(&head)) {}

  std::optional<Bytes> find(const std::string& key) const {
    const Entry* entry = entry_of(key);
    if (!entry || entry->value == 0) return {};
    const auto* value = at<Value>(entry->value);
    const auto* bytes = reinterpret_cast<const uint8_t*>(value + 1);
    return Bytes(bytes, bytes + value->length);
  }

  void put(const std::string& key, const Bytes& bytes) {
    Entry* entry = entry_of(key);
    if (!entry) entry = add_entry(key);
    uint64_t place = entry->spare;
    if (place == 0 || place == entry->value || at<Value>(place)->capacity < bytes.size()) {
      // Room to grow: counters and queues are rewritten often.
      const size_t capacity = (bytes.size() + 31) / 32 * 32;
      place = allocate(sizeof(Value) + capacity);
      at<Value>(place)->capacity = capacity;
    }
    auto* value = at<Value>(place);
    value->length = bytes.size();
    if (!bytes.empty()) std::memcpy(value + 1, bytes.data(), bytes.size());
    const uint64_t former = entry->value;
    commit(entry->value, place);
    commit(entry->spare, former);
  }

  bool remove(const std::string& key) {
    Entry* entry = entry_of(key);
    if (!entry || entry->value == 0) return false;
    const uint64_t former = entry->value;
    commit(entry->value, 0);
    commit(entry->spare, former);
    return true;
  }

  std::vector<std::string> keys() const {
    std::vector<std::string> keys;
    for (const uint64_t first : head_.buckets)
      for (uint64_t place = first; place != 0; place = at<Entry>(place)->next)
        if (at<Entry>(place)->value != 0) keys.emplace_back(key_of(*at<Entry>(place)));
    return keys;
  }

 private:
  template <class T>
  T* at(uint64_t place) const {
    return reinterpret_cast<T*>(base_ + place);
  }

  // Takes effect once what it refers to is written; neither compiler nor processor may reorder the
  // two.
  static void commit(uint64_t& word, uint64_t place) {
    std::atomic_ref(word).store(place, std::memory_order_release);
  }

  static std::string_view key_of(const Entry& entry) {
    return {reinterpret_cast<const char*>(&entry + 1), entry.key_length};
  }

  uint64_t& bucket_of(const std::string& key) const {
    return head_.buckets[std::hash<std::string>{}(key) % kBuckets];
  }

  Entry* entry_of(const std::string& key) const {
    for (uint64_t place = bucket_of(key); place != 0; place = at<Entry>(place)->next)
      if (key_of(*at<Entry>(place)) == key) return at<Entry>(place);
    return nullptr;
  }

  Entry* add_entry(const std::string& key) {
    const uint64_t place = allocate(sizeof(Entry) + key.size());
    auto* entry = new (base_ + place)
        Entry{.next = bucket_of(key), .value = 0, .spare = 0, .key_length = key.size()};
    std::memcpy(entry + 1, key.data(), key.size());
    commit(bucket_of(key), place);
    return entry;
  }

  uint64_t allocate(size_t bytes) {
    const uint64_t place = head_.used;
    const uint64_t rounded = (bytes + 7) / 8 * 8;
    if (rounded > head_.size - place)
      C10_THROW_ERROR(DistStoreError, "the store is full: " + std::to_string(place) + " of " +
                                          std::to_string(head_.size) +
                                          " bytes are used, and an entry needs " +
                                          std::to_string(rounded));
    commit(head_.used, place + rounded);
    return place;
  }

  Head& head_;
  std::byte* base_;
};

// If the rank that made the change dies before it wakes the others, sleepers check again after a
// while.
constexpr Milliseconds kLookAgain{50};

void sleep_on(std::atomic<uint32_t>& word, uint32_t seen, Milliseconds at_most) {
  const auto limit = std::min(at_most, kLookAgain);
  const timespec time{0, limit.count() * 1'000'000};
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAIT, seen, &time, nullptr, 0);
}

void announce(Head& head) {
  head.generation.fetch_add(1, std::memory_order_release);
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&head.generation), FUTEX_WAKE, INT32_MAX, nullptr,
          nullptr, 0);
}

// Returns what `look` finds in the table, as soon as it finds something. Throws DistStoreError at
// the timeout, with the missing ones of `keys`.
template <class Look>
auto wait_for(Head& head, Milliseconds timeout, std::vector<std::string> keys, const Look& look) {
  const auto until = Clock::now() + timeout;
  for (;;) {
    const uint32_t seen = head.generation.load(std::memory_order_acquire);
    {
      const Lock lock(head, timeout);
      if (auto found = look(KeyTable(head))) return *found;
    }
    const auto left = std::chrono::ceil<Milliseconds>(until - Clock::now());
    if (left.count() <= 0) {
      std::erase_if(keys, [&](const auto& key) { return KeyTable(head).find(key).has_value(); });
      C10_THROW_ERROR(DistStoreError, "waited " + std::to_string(timeout.count()) +
                                          " ms for the store's " + quoted(keys));
    }
    sleep_on(head.generation, seen, left);
  }
}

// Runs `change` under the lock and wakes all waiters.
template <class Change>
auto changed(Head& head, Milliseconds patience, const Change& change) {
  const auto result = [&] {
    const Lock lock(head, patience);
    return change(KeyTable(head));
  }();
  announce(head);
  return result;
}

// A queue is the value of its own key: every element with its length in front.
std::string queue_key(const std::string& key) {
  return std::string("\0queue/", 7) + key;
}
bool is_queue(const std::string& key) {
  return key.starts_with(std::string("\0queue/", 7));
}

uint64_t front_length(const Bytes& queue) {
  uint64_t length = 0;
  std::memcpy(&length, queue.data(), sizeof(length));
  return length;
}

bool holds_all(const KeyTable& table, const std::vector<std::string>& keys) {
  return std::all_of(keys.begin(), keys.end(), [&](const auto& key) {
    return table.find(key).has_value() || table.find(queue_key(key)).has_value();
  });
}

std::optional<Bytes> pop_front(KeyTable table, const std::string& key) {
  auto queue = table.find(queue_key(key));
  if (!queue || queue->empty()) return {};
  const auto first = queue->begin() + sizeof(uint64_t);
  const auto end = first + static_cast<int64_t>(front_length(*queue));
  Bytes element(first, end);
  queue->erase(queue->begin(), end);
  table.put(queue_key(key), *queue);
  return element;
}

}  // namespace

void SharedMemoryStore::reset(std::span<std::byte> memory) {
  TORCH_CHECK(memory.size() > sizeof(Head), "a store needs more than ", sizeof(Head),
              " bytes, not ", memory.size());
  Head& head = *new (memory.data()) Head{};
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  pthread_mutex_init(&head.mutex, &attributes);
  pthread_mutexattr_destroy(&attributes);
  head.size = memory.size();
  head.used = sizeof(Head);
}

size_t SharedMemoryStore::used(std::span<std::byte> memory) {
  return head_of(memory).used;
}

SharedMemoryStore::SharedMemoryStore(std::span<std::byte> memory, Milliseconds timeout)
    : Store(timeout), memory_(memory) {}

c10::intrusive_ptr<c10d::Store> SharedMemoryStore::clone() {
  return c10::make_intrusive<SharedMemoryStore>(memory_, timeout_);
}

void SharedMemoryStore::set(const std::string& key, const Bytes& value) {
  changed(head_of(memory_), timeout_, [&](KeyTable table) { return table.put(key, value), true; });
}

// As c10d's stores do: a missing key counts as equal to an empty `current`, and is set.
Bytes SharedMemoryStore::compareSet(const std::string& key, const Bytes& current,
                                    const Bytes& wanted) {
  return changed(head_of(memory_), timeout_, [&](KeyTable table) {
    const auto found = table.find(key);
    if (!found && !current.empty()) return current;
    if (found && *found != current) return *found;
    table.put(key, wanted);
    return wanted;
  });
}

Bytes SharedMemoryStore::get(const std::string& key) {
  return wait_for(head_of(memory_), timeout_, {key},
                  [&](KeyTable table) { return table.find(key); });
}

int64_t SharedMemoryStore::add(const std::string& key, int64_t value) {
  return changed(head_of(memory_), timeout_, [&](KeyTable table) {
    const auto found = table.find(key);
    const int64_t sum = (found ? std::stoll(std::string(found->begin(), found->end())) : 0) + value;
    const std::string text = std::to_string(sum);
    table.put(key, Bytes(text.begin(), text.end()));
    return sum;
  });
}

bool SharedMemoryStore::deleteKey(const std::string& key) {
  return changed(head_of(memory_), timeout_, [&](KeyTable table) { return table.remove(key); });
}

bool SharedMemoryStore::check(const std::vector<std::string>& keys) {
  const Lock lock(head_of(memory_), timeout_);
  return holds_all(KeyTable(head_of(memory_)), keys);
}

int64_t SharedMemoryStore::getNumKeys() {
  return static_cast<int64_t>(listKeys().size());
}

void SharedMemoryStore::wait(const std::vector<std::string>& keys) {
  wait(keys, timeout_);
}

void SharedMemoryStore::wait(const std::vector<std::string>& keys, const Milliseconds& timeout) {
  wait_for(head_of(memory_), timeout, keys, [&](KeyTable table) {
    return holds_all(table, keys) ? std::optional(true) : std::nullopt;
  });
}

void SharedMemoryStore::append(const std::string& key, const Bytes& value) {
  changed(head_of(memory_), timeout_, [&](KeyTable table) {
    Bytes all = table.find(key).value_or(Bytes{});
    all.insert(all.end(), value.begin(), value.end());
    table.put(key, all);
    return true;
  });
}

std::vector<Bytes> SharedMemoryStore::multiGet(const std::vector<std::string>& keys) {
  wait(keys);
  std::vector<Bytes> values;
  for (const auto& key : keys) values.push_back(get(key));
  return values;
}

void SharedMemoryStore::multiSet(const std::vector<std::string>& keys,
                                 const std::vector<Bytes>& values) {
  TORCH_CHECK(keys.size() == values.size(), "multiSet was given ", keys.size(), " keys and ",
              values.size(), " values");
  changed(head_of(memory_), timeout_, [&](KeyTable table) {
    for (size_t i = 0; i < keys.size(); ++i) table.put(keys[i], values[i]);
    return true;
  });
}

void SharedMemoryStore::queuePush(const std::string& key, const Bytes& value) {
  changed(head_of(memory_), timeout_, [&](KeyTable table) {
    Bytes queue = table.find(queue_key(key)).value_or(Bytes{});
    const uint64_t length = value.size();
    const auto* bytes = reinterpret_cast<const uint8_t*>(&length);
    queue.insert(queue.end(), bytes, bytes + sizeof(length));
    queue.insert(queue.end(), value.begin(), value.end());
    table.put(queue_key(key), queue);
    return true;
  });
}

Bytes SharedMemoryStore::queuePop(const std::string& key, bool block) {
  const auto pop = [&](KeyTable table) { return pop_front(table, key); };
  if (block) return wait_for(head_of(memory_), timeout_, {key}, pop);
  const Lock lock(head_of(memory_), timeout_);
  const auto element = pop(KeyTable(head_of(memory_)));
  if (!element) C10_THROW_ERROR(DistQueueEmptyError, "the store's queue '" + key + "' is empty");
  return *element;
}

int64_t SharedMemoryStore::queueLen(const std::string& key) {
  const Lock lock(head_of(memory_), timeout_);
  auto queue = KeyTable(head_of(memory_)).find(queue_key(key)).value_or(Bytes{});
  int64_t length = 0;
  for (size_t at = 0; at < queue.size(); ++length) {
    uint64_t element = 0;
    std::memcpy(&element, queue.data() + at, sizeof(element));
    at += sizeof(element) + element;
  }
  return length;
}

std::vector<std::string> SharedMemoryStore::listKeys() {
  const Lock lock(head_of(memory_), timeout_);
  auto keys = KeyTable(head_of(memory_)).keys();
  std::erase_if(keys, is_queue);
  return keys;
}

}  // namespace lockstep
