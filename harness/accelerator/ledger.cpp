#include "harness/accelerator/ledger.h"

#include <algorithm>
#include <iterator>

namespace lockstep::accelerator {

namespace {

std::uintptr_t address_of(const void* begin) {
  return reinterpret_cast<std::uintptr_t>(begin);
}

}  // namespace

std::string name_of(const c10::Stream& stream) {
  return "stream " + std::to_string(stream.id()) + " of device " +
         std::to_string(static_cast<int>(stream.device_index()));
}

Ledger& Ledger::instance() {
  static auto* const ledger = new Ledger;
  return *ledger;
}

std::size_t Ledger::number_of(const c10::Stream& stream) {
  const std::pair key{stream.device_index(), stream.id()};
  const auto found = numbers_.find(key);
  if (found != numbers_.end()) return found->second;
  return numbers_[key] = order_.add_stream(name_of(stream));
}

void Ledger::allocate(const void* begin, std::size_t bytes, const c10::Stream& stream) {
  const std::lock_guard lock(mutex_);
  order_.allocate(address_of(begin), bytes, number_of(stream));
}

void Ledger::free(const void* begin) {
  const std::lock_guard lock(mutex_);
  order_.free(address_of(begin));
}

void Ledger::use_on(const void* begin, const c10::Stream& stream) {
  const std::lock_guard lock(mutex_);
  order_.use_on(address_of(begin), number_of(stream));
}

void Ledger::submit(const c10::Stream& stream, const std::string& operation,
                    const std::vector<Access>& accesses) {
  const std::lock_guard lock(mutex_);
  order_.submit(number_of(stream), operation, accesses);
}

Clock Ledger::record(const c10::Stream& stream) {
  const std::lock_guard lock(mutex_);
  return order_.record(number_of(stream));
}

void Ledger::wait(const c10::Stream& stream, const Clock& event) {
  const std::lock_guard lock(mutex_);
  order_.wait(number_of(stream), event);
}

void Ledger::host_knows(const Clock& event) {
  std::vector<Deferred> known;
  {
    const std::lock_guard lock(mutex_);
    order_.host_wait(event);
    known = take_those_before(order_.host());
  }
  for (const Deferred& each : known) each.act();
}

void Ledger::host_knows_device(c10::DeviceIndex device) {
  std::vector<Deferred> known;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [stream, number] : numbers_) {
      if (stream.first == device) order_.host_wait(order_.record(number));
    }
    known = take_those_before(order_.host());
  }
  for (const Deferred& each : known) each.act();
}

void Ledger::when_host_knows(const Clock& event, std::function<void()> act) {
  std::vector<Deferred> known;
  {
    const std::lock_guard lock(mutex_);
    deferred_.push_back({event, std::move(act)});
    known = take_those_before(order_.host());
  }
  for (const Deferred& each : known) each.act();
}

void Ledger::hurry_for(const c10::Stream& stream) {
  std::vector<Deferred> known;
  {
    const std::lock_guard lock(mutex_);
    known = take_those_before(order_.record(number_of(stream)));
  }
  for (const Deferred& each : known) each.act();
}

std::vector<Ledger::Deferred> Ledger::take_those_before(const Clock& now) {
  const auto first =
      std::stable_partition(deferred_.begin(), deferred_.end(),
                            [&](const Deferred& each) { return !covers(now, each.event); });
  std::vector<Deferred> known(std::make_move_iterator(first),
                              std::make_move_iterator(deferred_.end()));
  deferred_.erase(first, deferred_.end());
  return known;
}

void Ledger::host_waited(std::string reason) {
  const std::lock_guard lock(mutex_);
  host_waits_.push_back(std::move(reason));
}

std::vector<Hazard> Ledger::hazards() const {
  const std::lock_guard lock(mutex_);
  return order_.hazards();
}

void Ledger::clear_hazards() {
  const std::lock_guard lock(mutex_);
  order_.clear_hazards();
}

std::vector<std::string> Ledger::host_waits() const {
  const std::lock_guard lock(mutex_);
  return host_waits_;
}

}  // namespace lockstep::accelerator
