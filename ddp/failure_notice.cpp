#include "ddp/failure_notice.h"

#include "ddp/meeting/in_time.h"
#include "ddp/meeting/launcher_report.h"

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <chrono>
#include <exception>
#include <limits>
#include <sstream>
#include <utility>
#include <vector>

namespace lockstep {

namespace {

constexpr std::chrono::seconds kPatience{2};

bool may_hang(c10::intrusive_ptr<c10d::Store> store) {
  while (auto* const prefix = dynamic_cast<c10d::PrefixStore*>(store.get())) {
    store = prefix->getUnderlyingStore();
  }
  return dynamic_cast<c10d::TCPStore*>(store.get()) != nullptr;
}

}  // namespace

FailureNotice::FailureNotice(c10::intrusive_ptr<c10d::Store> store, int rank,
                             const std::string& instance)
    : rank_(rank),
      key_("lockstep/failure of " + instance),
      had_store_(store != nullptr),
      store_(std::move(store)) {}

std::string FailureNotice::sign_key(int rank) const {
  return key_ + "/signs of life/" + std::to_string(rank);
}

// A TCPStore whose server is a process that was stopped answers neither with a value nor with an
// error, and its client has no deadline. So a thread asks it, which is left behind if it hangs.
std::string FailureNotice::exchange(const Exchange& exchange) noexcept {
  if (!store_) return "";
  try {
    if (!may_hang(store_)) return exchange(*store_);
    return in_time<std::string>(
        kPatience, [exchange, store = store_] { return exchange(*store); },
        [] { return std::string("the store does not answer"); });
  } catch (const c10::DistNetworkError&) {
    server_has_left_ = true;
  } catch (const std::exception&) {
    // A store that is gone tells nobody anything.
  }
  store_ = nullptr;
  return "";
}

void FailureNotice::set_moment(std::int64_t forward_count) {
  const std::lock_guard lock(mutex_);
  moment_ = forward_count;
}

void FailureNotice::clear() noexcept {
  const std::lock_guard lock(mutex_);
  exchange([key = key_](c10d::Store& store) {
    if (store.check({key})) store.deleteKey(key);
    return std::string();
  });
}

void FailureNotice::post(const std::string& sentence) noexcept {
  const std::lock_guard lock(mutex_);
  // Where this forward threw, that is why this rank cannot go on.
  const std::string& cause = told_at_ == moment_ ? told_ : sentence;
  report_to_launcher(cause);
  post_until(std::numeric_limits<std::int64_t>::max(), cause);
}

void FailureNotice::post_for_now(const std::string& sentence) noexcept {
  const std::lock_guard lock(mutex_);
  const std::string& cause = told_at_ == moment_ ? told_ : sentence;
  post_until(std::numeric_limits<std::int64_t>::max() - 1, cause);
}

void FailureNotice::post_of_this_forward(const std::string& sentence) noexcept {
  const std::lock_guard lock(mutex_);
  told_ = sentence;
  told_at_ = moment_;
  post_until(moment_, sentence);
}

// "RANK MOMENT SENTENCE": the last forward that it counts for.
void FailureNotice::post_until(std::int64_t moment, const std::string& sentence) noexcept {
  const std::string mine = std::to_string(rank_) + ' ' + std::to_string(moment) + ' ' + sentence;
  exchange([key = key_, mine, moment](c10d::Store& store) {
    const std::vector<std::uint8_t> bytes(mine.begin(), mine.end());
    const std::vector<std::uint8_t> there = store.compareSet(key, {}, bytes);
    const std::string text(there.begin(), there.end());
    const std::size_t space = text.find(' ');
    // Of an earlier forward, whose rank has gone on; or for now only.
    if (space != std::string::npos && std::stoll(text.substr(space + 1)) < moment) {
      store.set(key, bytes);
    }
    return std::string();
  });
}

void FailureNotice::give_sign_of_life() noexcept {
  const std::lock_guard lock(mutex_);
  exchange([key = sign_key(rank_)](c10d::Store& store) {
    store.add(key, 1);
    return std::string();
  });
}

std::optional<std::vector<std::int64_t>> FailureNotice::signs_of_life(int world_size) noexcept {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> keys;
  for (int rank = 0; rank < world_size; ++rank) keys.push_back(sign_key(rank));
  std::istringstream text(exchange([keys](c10d::Store& store) {
    std::string counts;
    for (const std::string& key : keys) counts += std::to_string(store.add(key, 0)) + ' ';
    return counts;
  }));
  std::vector<std::int64_t> counts;
  for (std::int64_t count = 0; text >> count;) counts.push_back(count);
  if (counts.size() != keys.size()) return std::nullopt;
  return counts;
}

std::optional<std::string> FailureNotice::read() noexcept {
  const std::lock_guard lock(mutex_);
  const std::string text = exchange([key = key_](c10d::Store& store) -> std::string {
    if (!store.check({key})) return "";
    const std::vector<std::uint8_t> bytes = store.get(key);
    return {bytes.begin(), bytes.end()};
  });
  const std::size_t first = text.find(' ');
  const std::size_t second = text.find(' ', first + 1);
  if (first == std::string::npos || second == std::string::npos) return std::nullopt;
  const std::string rank = text.substr(0, first);
  if (rank == std::to_string(rank_) || std::stoll(text.substr(first + 1)) < moment_) {
    return std::nullopt;
  }
  std::string sentence = text.substr(second + 1);
  const std::string prefix = "rank " + rank + ": ";
  if (sentence.starts_with(prefix)) sentence.erase(0, prefix.size());
  return "rank " + rank + " reported: " + sentence;
}

}  // namespace lockstep
