#include "ddp/failure_notice.h"

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <chrono>
#include <exception>
#include <future>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

namespace lockstep {

namespace {

const std::string kKey = "lockstep/failure";
constexpr std::chrono::seconds kPatience{2};

bool may_hang(c10::intrusive_ptr<c10d::Store> store) {
  while (auto* const prefix = dynamic_cast<c10d::PrefixStore*>(store.get())) {
    store = prefix->getUnderlyingStore();
  }
  return dynamic_cast<c10d::TCPStore*>(store.get()) != nullptr;
}

}  // namespace

FailureNotice::FailureNotice(c10::intrusive_ptr<c10d::Store> store, int rank)
    : store_(std::move(store)), rank_(rank) {}

// A TCPStore whose server is a process that was stopped answers neither with a value nor with an
// error, and its client has no deadline. So a thread asks it, which is left behind if it hangs.
std::string FailureNotice::exchange(const Exchange& exchange) noexcept {
  if (!store_) return "";
  try {
    if (!may_hang(store_)) return exchange(*store_);
    const auto answer = std::make_shared<std::promise<std::string>>();
    std::future<std::string> future = answer->get_future();
    std::thread([answer, exchange, store = store_] {
      try {
        answer->set_value(exchange(*store));
      } catch (...) {
        answer->set_exception(std::current_exception());
      }
    }).detach();
    if (future.wait_for(kPatience) == std::future_status::ready) return future.get();
  } catch (const std::exception&) {
    // A store that is gone tells nobody anything.
  }
  store_ = nullptr;
  return "";
}

void FailureNotice::clear() noexcept {
  exchange([](c10d::Store& store) {
    if (store.check({kKey})) store.deleteKey(kKey);
    return std::string();
  });
}

void FailureNotice::withdraw() noexcept {
  if (!has_posted_) return;
  has_posted_ = false;
  exchange([own = std::to_string(rank_) + ' '](c10d::Store& store) {
    if (!store.check({kKey})) return std::string();
    const std::vector<std::uint8_t> bytes = store.get(kKey);
    if (std::string(bytes.begin(), bytes.end()).starts_with(own)) store.deleteKey(kKey);
    return std::string();
  });
}

void FailureNotice::post(const std::string& sentence) noexcept {
  has_posted_ = true;
  const std::string text = std::to_string(rank_) + ' ' + sentence;
  exchange([text](c10d::Store& store) {
    store.compareSet(kKey, {}, std::vector<std::uint8_t>(text.begin(), text.end()));
    return std::string();
  });
}

std::optional<std::string> FailureNotice::read() noexcept {
  const std::string text = exchange([](c10d::Store& store) -> std::string {
    if (!store.check({kKey})) return "";
    const std::vector<std::uint8_t> bytes = store.get(kKey);
    return {bytes.begin(), bytes.end()};
  });
  const std::string rank = text.substr(0, text.find(' '));
  if (text.empty() || rank == std::to_string(rank_)) return std::nullopt;
  return "rank " + rank + " failed: " + text.substr(rank.size() + 1);
}

}  // namespace lockstep
