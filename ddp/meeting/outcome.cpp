#include "ddp/meeting/outcome.h"

#include <algorithm>
#include <exception>
#include <thread>
#include <utility>

namespace lockstep {

namespace {

using std::chrono::milliseconds;

const std::string kProcesses = "lockstep/processes_here";

}  // namespace

std::vector<std::uint8_t> bytes_of(const std::string& text) {
  return {text.begin(), text.end()};
}

std::string text_of(const std::vector<std::uint8_t>& bytes) {
  return {bytes.begin(), bytes.end()};
}

bool appears(c10d::Store& store, const std::string& key,
             std::chrono::steady_clock::time_point deadline) {
  const auto left = std::chrono::ceil<milliseconds>(deadline - std::chrono::steady_clock::now());
  try {
    store.wait({key}, std::max(left, milliseconds(1)));
    return true;
  } catch (const std::exception&) {
    return store.check({key});
  }
}

void stay_until_read(c10d::Store& store, const std::string& readers, int rank,
                     std::int64_t expected, std::int64_t done) {
  constexpr std::chrono::seconds kPatience{2};
  constexpr milliseconds kLongestPause{50};
  const auto until = std::chrono::steady_clock::now() + kPatience;
  const auto is_over = [&](std::int64_t read) {
    return read >= std::max(expected, store.add(kProcesses, 0) - done) ||
           std::chrono::steady_clock::now() >= until;
  };
  try {
    std::int64_t read = store.add(readers, 1);
    for (milliseconds pause(1); !is_over(read); pause = std::min(2 * pause, kLongestPause)) {
      std::this_thread::sleep_for(pause);
      read = store.add(readers, 0);
    }
    if (rank == 0 && read > 1) std::this_thread::sleep_for(2 * kLongestPause);
  } catch (const std::exception&) {
    // Whoever held the store has left, and this process has read.
  }
}

Outcome::Outcome(c10d::Store& store, const std::string& step, std::vector<std::string> awaited)
    : store_(store),
      key_("lockstep/outcome_of_" + step),
      readers_("lockstep/readers_of_" + step),
      awaited_(std::move(awaited)) {
  awaited_.push_back(told());
}

void Outcome::count_me_in() {
  store_.add(kProcesses, 1);
}

bool Outcome::is_there() const {
  return store_.check({key_});
}

std::string Outcome::get() const {
  return text_of(store_.get(key_));
}

std::string Outcome::say(const std::string& text) {
  const std::string first = text_of(store_.compareSet(key_, {}, bytes_of(text)));
  for (const std::string& key : awaited_) store_.set(key, bytes_of("1"));
  return first;
}

void Outcome::stay(int rank, std::int64_t expected, std::int64_t done) {
  stay_until_read(store_, readers_, rank, expected, done);
}

}  // namespace lockstep
