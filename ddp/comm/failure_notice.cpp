#include "ddp/comm/failure_notice.h"

#include "ddp/base/waiting.h"
#include "ddp/launcher_report.h"
#include "ddp/rendezvous/addresses.h"

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

// Null if it is no TCPStore.
c10::intrusive_ptr<c10d::TCPStore> tcp_store_in(c10::intrusive_ptr<c10d::Store> store) {
  while (auto* const prefix = dynamic_cast<c10d::PrefixStore*>(store.get())) {
    store = prefix->getUnderlyingStore();
  }
  return c10::dynamic_intrusive_pointer_cast<c10d::TCPStore>(store);
}

bool may_hang(const c10::intrusive_ptr<c10d::Store>& store) {
  return tcp_store_in(store) != nullptr;
}

// A rank's post at its end, "RANK ISSUED MOMENT PASSES".
struct EndOfRank {
  int rank = 0;
  std::int64_t issued_count = 0, moment = 0, pass_count = 0;
};

std::string text_of(const EndOfRank& end) {
  return std::to_string(end.rank) + ' ' + std::to_string(end.issued_count) + ' ' +
         std::to_string(end.moment) + ' ' + std::to_string(end.pass_count);
}

std::optional<EndOfRank> end_in(const std::string& text) {
  std::istringstream in(text);
  EndOfRank end;
  if (in >> end.rank >> end.issued_count >> end.moment >> end.pass_count) return end;
  return std::nullopt;
}

}  // namespace

void LastFailure::set(const std::string& sentence) {
  const std::lock_guard lock(mutex_);
  sentence_ = sentence;
}

std::string LastFailure::get() const {
  const std::lock_guard lock(mutex_);
  return sentence_;
}

FailureNotice::FailureNotice(c10::intrusive_ptr<c10d::Store> store, int rank,
                             const std::string& instance, std::shared_ptr<LastFailure> last_failure)
    : rank_(rank),
      key_("lockstep/failure of " + instance),
      had_store_(store != nullptr),
      last_failure_(std::move(last_failure)),
      store_(std::move(store)) {}

std::string FailureNotice::sign_key(int rank) const {
  return key_ + "/signs of life/" + std::to_string(rank);
}

std::string FailureNotice::end_key() const {
  return key_ + "/ended";
}

// A TCPStore whose server process was stopped answers neither with a value nor with an error, and
// its client has no deadline. So a thread queries it, and is left behind if it hangs.
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
    // Nothing can be posted or read in a store that is gone.
  }
  store_ = nullptr;
  return "";
}

void FailureNotice::set_forward_count(std::int64_t forward_count) {
  const std::lock_guard lock(mutex_);
  forward_count_ = forward_count;
  last_failure_->set("");
}

void FailureNotice::clear() noexcept {
  const std::lock_guard lock(mutex_);
  exchange([keys = {key_, end_key()}](c10d::Store& store) {
    for (const std::string& key : keys)
      if (store.check({key})) store.deleteKey(key);
    return std::string();
  });
}

void FailureNotice::post(const std::string& sentence) noexcept {
  last_failure_->set(post_for_good(sentence));
}

void FailureNotice::post_that_it_is_unwound() noexcept {
  const std::string cause = last_failure_->get();
  post_for_good("it left its training with an exception" + (cause.empty() ? "" : ": " + cause));
}

std::string FailureNotice::post_for_good(const std::string& sentence) noexcept {
  const std::lock_guard lock(mutex_);
  // If this forward threw, that is why this rank cannot continue.
  std::string cause = reported_at_ == forward_count_ ? reported_ : sentence;
  report_for_the_program(cause);
  post_until(std::numeric_limits<std::int64_t>::max(), cause);
  return cause;
}

void FailureNotice::post_for_now(const std::string& sentence) noexcept {
  const std::lock_guard lock(mutex_);
  const std::string& cause = reported_at_ == forward_count_ ? reported_ : sentence;
  post_until(std::numeric_limits<std::int64_t>::max() - 1, cause);
}

void FailureNotice::post_of_this_forward(const std::string& sentence) noexcept {
  const std::lock_guard lock(mutex_);
  reported_ = sentence;
  reported_at_ = forward_count_;
  post_until(forward_count_, sentence);
}

// Posts "RANK MOMENT SENTENCE", where MOMENT is the last forward that it counts for.
void FailureNotice::post_until(std::int64_t moment, const std::string& sentence) noexcept {
  const std::string mine = std::to_string(rank_) + ' ' + std::to_string(moment) + ' ' + sentence;
  exchange([key = key_, mine, moment](c10d::Store& store) {
    const std::vector<std::uint8_t> bytes(mine.begin(), mine.end());
    const std::vector<std::uint8_t> there = store.compareSet(key, {}, bytes);
    const std::string text(there.begin(), there.end());
    const std::size_t space = text.find(' ');
    // The text there is of an earlier forward, whose rank has continued, or is provisional.
    if (space != std::string::npos && std::stoll(text.substr(space + 1)) < moment) {
      store.set(key, bytes);
    }
    return std::string();
  });
}

// If several ranks end, the post of the one that has issued least stays: peers miss it first. If
// the server has ended, c10d would print the stack of every attempt, at the end of programs that
// succeeded.
void FailureNotice::post_end(const PeacefulEnd& end) noexcept {
  const std::lock_guard lock(mutex_);
  const EndOfRank mine{rank_, end.issued_count, forward_count_, end.pass_count};
  exchange(
      [key = end_key(), mine, tcp = store_ ? tcp_store_in(store_) : nullptr](c10d::Store& store) {
        constexpr std::chrono::milliseconds kLongestAnswer{200};
        if (tcp && !accepts_connections(tcp->getHost(), tcp->getPort(), kLongestAnswer))
          return std::string();
        const std::string text = text_of(mine);
        const std::vector<std::uint8_t> bytes(text.begin(), text.end());
        const std::vector<std::uint8_t> there = store.compareSet(key, {}, bytes);
        const auto other = end_in({there.begin(), there.end()});
        if (other && other->issued_count > mine.issued_count) store.set(key, bytes);
        return std::string();
      });
}

std::optional<std::string> FailureNotice::ended_peer(
    std::optional<std::int64_t> sequence_number) noexcept {
  const std::lock_guard lock(mutex_);
  const auto end = end_in(exchange([key = end_key()](c10d::Store& store) -> std::string {
    if (!store.check({key})) return "";
    const std::vector<std::uint8_t> bytes = store.get(key);
    return {bytes.begin(), bytes.end()};
  }));
  if (!end || end->rank == rank_) return std::nullopt;
  const bool is_missing =
      sequence_number ? end->issued_count <= *sequence_number : end->moment < forward_count_;
  if (!is_missing) return std::nullopt;
  return "rank " + std::to_string(end->rank) + " ended after " + std::to_string(end->pass_count) +
         " synchronised backward" + (end->pass_count == 1 ? "" : "s") +
         ", and this rank wants another step of it: ranks make equally many, or those with uneven "
         "inputs join() (docs/ddp.md)";
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
  if (rank == std::to_string(rank_) || std::stoll(text.substr(first + 1)) < forward_count_) {
    return std::nullopt;
  }
  std::string sentence = text.substr(second + 1);
  const std::string prefix = "rank " + rank + ": ";
  if (sentence.starts_with(prefix)) sentence.erase(0, prefix.size());
  return "rank " + rank + " reported: " + sentence;
}

}  // namespace lockstep
