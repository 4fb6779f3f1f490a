#include "ddp/comm/failure_notice.h"

#include "ddp/base/waiting.h"
#include "ddp/comm/posts.h"
#include "ddp/launcher_report.h"
#include "ddp/rendezvous/addresses.h"
#include "ddp/rendezvous/tcp_store.h"

#include <chrono>
#include <exception>
#include <limits>
#include <sstream>
#include <utility>
#include <vector>

namespace lockstep {

namespace {

constexpr std::chrono::seconds kPatience{2};

bool may_hang(const c10::intrusive_ptr<c10d::Store>& store) {
  return tcp_store_in(store) != nullptr;
}

// Between two synchronised forwards there is room for so many others, and for what follows each.
constexpr std::int64_t kMomentsOfAStep = std::int64_t{1} << 32;

constexpr std::int64_t kForGood = std::numeric_limits<std::int64_t>::max();

// The moment behind the forward at, or behind which, `moment` is. Those of forwards are even.
std::int64_t behind(std::int64_t moment) {
  return moment | 1;
}

// The key is common to all instances on the group: a rank may wait in one instance while its peers
// wait in another.
std::string sign_key(int rank) {
  return "lockstep/signs of life/" + std::to_string(rank);
}

std::string awaited_key(int rank) {
  return "lockstep/awaited by/" + std::to_string(rank);
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

std::string FailureNotice::end_key() const {
  return key_ + "/ended";
}

std::string FailureNotice::answer_key() const {
  return key_ + "/answer";
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

std::string FailureNotice::text_at(const std::string& key) noexcept {
  return exchange([key](c10d::Store& store) -> std::string {
    if (!store.check({key})) return "";
    const std::vector<std::uint8_t> bytes = store.get(key);
    return {bytes.begin(), bytes.end()};
  });
}

void FailureNotice::begin(std::int64_t moment) {
  moment_ = moment;
  reported_.clear();
  last_failure_->set("");
}

void FailureNotice::begin_forward(std::int64_t number) {
  const std::lock_guard lock(mutex_);
  begin(number * kMomentsOfAStep);
}

void FailureNotice::begin_local_exchange() {
  const std::lock_guard lock(mutex_);
  begin(behind(moment_) + 1);
}

void FailureNotice::begin_other() {
  const std::lock_guard lock(mutex_);
  begin(behind(moment_));
}

void FailureNotice::clear() noexcept {
  const std::lock_guard lock(mutex_);
  exchange([keys = {key_, end_key(), answer_key()}](c10d::Store& store) {
    for (const std::string& key : keys)
      if (store.check({key})) store.deleteKey(key);
    return std::string();
  });
}

void FailureNotice::post(const std::string& sentence) noexcept {
  last_failure_->set(post_for_good(sentence));
}

void FailureNotice::post_of_the_program(const std::string& sentence) noexcept {
  {
    const std::lock_guard lock(mutex_);
    reported_ = sentence;
  }
  post(sentence);
}

void FailureNotice::post_that_it_is_unwound() noexcept {
  const std::string cause = last_failure_->get();
  post_for_good("it left its training with an exception" + (cause.empty() ? "" : ": " + cause));
}

std::string FailureNotice::post_for_good(const std::string& sentence) noexcept {
  const std::lock_guard lock(mutex_);
  // If this forward threw, that is why this rank cannot continue.
  std::string cause = reported_.empty() ? sentence : reported_;
  report_for_the_program(cause);
  post_until(kForGood, 0, cause);
  return cause;
}

void FailureNotice::post_for_now(const std::string& sentence) noexcept {
  const std::lock_guard lock(mutex_);
  post_until(kForGood - 1, 0, reported_.empty() ? sentence : reported_);
}

void FailureNotice::post_thrown_forward(const std::string& sentence) noexcept {
  const std::lock_guard lock(mutex_);
  if (moment_ == behind(moment_)) return;
  reported_ = sentence;
  post_until(moment_, issued_count_, sentence);
  moment_ = behind(moment_);
}

void FailureNotice::post_refused_forward(const std::string& sentence) noexcept {
  const std::lock_guard lock(mutex_);
  reported_ = sentence;
  last_failure_->set(sentence);
  report_for_the_program(sentence);
  post_until(moment_, issued_count_, sentence);
  moment_ = behind(moment_);
}

void FailureNotice::post_thrown_backward(const std::string& sentence) noexcept {
  const std::lock_guard lock(mutex_);
  reported_ = sentence;
  post_until(moment_, 0, sentence);
}

void FailureNotice::post_until(std::int64_t moment, std::int64_t issued_count,
                               const std::string& sentence) noexcept {
  const std::string mine = text_of(Report{rank_, moment, issued_count, sentence});
  exchange([key = key_, answer_key = answer_key(), mine, moment, rank = rank_](c10d::Store& store) {
    const std::vector<std::uint8_t> bytes(mine.begin(), mine.end());
    const std::vector<std::uint8_t> there = store.compareSet(key, {}, bytes);
    const auto report = report_in({there.begin(), there.end()});
    // It is of an earlier forward, whose rank has continued, or is provisional.
    if (report && report->moment < moment) store.set(key, bytes);
    if (report && report->moment == kForGood && moment == kForGood && report->rank != rank)
      store.compareSet(answer_key, {}, bytes);
    return std::string();
  });
}

// If several ranks end, the post of the one that has issued least stays: peers miss it first. If
// the server has ended, c10d would print the stack of every attempt, at the end of programs that
// succeeded.
void FailureNotice::post_end(const PeacefulEnd& end) noexcept {
  const std::lock_guard lock(mutex_);
  const EndOfRank mine{rank_, end.issued_count, behind(moment_) - 1, end.pass_count};
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
  const auto end = end_in(text_at(end_key()));
  if (!end || end->rank == rank_) return std::nullopt;
  const bool is_missing =
      sequence_number ? end->issued_count <= *sequence_number : end->moment < moment_;
  if (!is_missing) return std::nullopt;
  return "rank " + std::to_string(end->rank) + " ended after " + std::to_string(end->pass_count) +
         " synchronised backward" + (end->pass_count == 1 ? "" : "s") +
         ", and this rank wants another step of it: ranks make equally many, or those with uneven "
         "inputs join() (docs/ddp.md)";
}

void FailureNotice::give_sign_of_life(const std::string& awaited) noexcept {
  const std::lock_guard lock(mutex_);
  exchange([rank = rank_, awaited](c10d::Store& store) {
    store.set(awaited_key(rank), std::vector<std::uint8_t>(awaited.begin(), awaited.end()));
    store.add(sign_key(rank), 1);
    return std::string();
  });
}

std::string FailureNotice::awaited_by(int rank) noexcept {
  const std::lock_guard lock(mutex_);
  return text_at(awaited_key(rank));
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

std::optional<std::string> FailureNotice::read(std::int64_t issued_before) noexcept {
  const std::lock_guard lock(mutex_);
  auto report = report_in(text_at(key_));
  if (report && report->rank == rank_ && report->moment == kForGood)
    report = report_in(text_at(answer_key()));
  if (!report || report->rank == rank_) return std::nullopt;
  if (report->moment < moment_ || issued_before < report->issued_count) return std::nullopt;
  const std::string rank = "rank " + std::to_string(report->rank);
  std::string sentence = report->sentence;
  if (sentence.starts_with(rank + ": ")) sentence.erase(0, rank.size() + 2);
  return rank + " reported: " + sentence;
}

}  // namespace lockstep
