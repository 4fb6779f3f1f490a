// Communicator's waits: on the host, on a stream, and for operations that a stream waits for.
#include "ddp/backend/nccl.h"
#include "ddp/base/waiting.h"
#include "ddp/comm/communicator.h"
#include "ddp/comm/streams.h"
#include "ddp/comm/watchdog.h"
#include "ddp/errors.h"

#include <torch/torch.h>

#include <algorithm>

namespace lockstep {

namespace {

constexpr std::chrono::milliseconds kPollInterval{100};
constexpr std::chrono::seconds kPatienceWithoutStore{15};
// Short, since the host has nothing else to do and a step waits for it.
constexpr PollInterval kOften{.shortest = std::chrono::microseconds(50),
                              .longest = std::chrono::microseconds(50)};

// Empty if it succeeded.
std::string error_of(c10d::Work& work) {
  const std::exception_ptr exception = work.exception();
  if (!exception) return "";
  try {
    std::rethrow_exception(exception);
  } catch (const std::exception& error) {
    return first_line(error);
  }
}

}  // namespace

bool Communicator::streams_wait(const c10::Device& device) const {
  if (!has_streams(device)) return false;
  const auto backend = backend_of(device.type());
  return backend && backend->getBackendName() != "gloo";
}

void Communicator::abort_device_backends() const {
  for (const c10::Device& device : group_->getDeviceTypes()) {
    if (streams_wait(device)) abort_backend(backend_of(device.type()));
  }
}

// An operation that NCCL's watchdog aborted looks successful; the backend knows that it failed.
// Querying it throws where the device is lost.
std::optional<std::string> Communicator::how_it_ended(const Operation& operation) const {
  try {
    if (!operation.work->isCompleted()) return std::nullopt;
    const std::string error = error_of(*operation.work);
    if (!error.empty()) return error;
    return failure_of(*backend_of(operation.tensors.front().device().type()));
  } catch (const std::exception& error) {
    return first_line(error);
  }
}

void Communicator::wait(Operation& operation) {
  const at::Tensor& travelled = operation.tensors.front();
  const bool is_for_host = has_streams(travelled.device()) && !has_streams(operation.home.device());
  if (!streams_wait(travelled.device())) {
    wait_in_slices(operation);
  } else {
    if (is_for_host) ask_until_it_is_over(operation);
    wait_on_stream(operation);
  }
  if (!operation.home.is_same(travelled)) operation.home.copy_(travelled);
  operation = {};
}

// Note [Waits on a device]. A wait with a timeout would block the host, and abort what is under way
// when the timeout passes.
void Communicator::wait_on_stream(Operation& operation) {
  const auto start = std::chrono::steady_clock::now();
  std::string cause;
  try {
    if (!operation.work->wait()) cause = "it was aborted";
  } catch (const std::exception& error) {
    cause = first_line(error);
  }
  if (!cause.empty()) fail(operation, elapsed_since(start), cause);
  under_way_.push_back({operation, std::chrono::steady_clock::now()});
}

void Communicator::look_at_what_is_under_way() {
  while (!under_way_.empty()) {
    const auto& [operation, since] = under_way_.front();
    std::string cause;
    if (const auto ended = how_it_ended(operation)) {
      cause = *ended;
    } else if (elapsed_since(since) >= timeout_) {
      cause = late(timeout_);
    } else {
      // Reading the store is an exchange with a server.
      const auto now = std::chrono::steady_clock::now();
      if (now - std::max(since, last_look_) < kPollInterval) return;
      last_look_ = now;
      cause = poll_peer_error(operation, since);
      if (cause.empty()) return;
    }
    if (cause.empty()) {
      under_way_.pop_front();
      continue;
    }
    const UnderWay failed = under_way_.front();
    under_way_.clear();
    fail(failed.operation, elapsed_since(failed.since), cause);
  }
}

void Communicator::look_until(const std::function<bool()>& is_over) {
  const auto look = [&] {
    look_at_what_is_under_way();
    return is_over();
  };
  poll_until(Deadline::max(), look, kOften);
}

void Communicator::wait_for_what_is_under_way() {
  look_until([&] { return under_way_.empty(); });
}

// Note [One place that waits]
// A simulated world runs one rank at a time and switches ranks where one blocks, so blocking
// happens here and nowhere else in this library, in short slices. A slice that times out is an
// exception from c10d::Work::wait, and so is a failed operation; checking before the slice whether
// the operation was already over distinguishes them. The time waited is that of the slices that
// timed out, or the clock's if that is longer: in a simulated world no time passes on the clock.
void Communicator::wait_in_slices(Operation& operation) {
  const auto start = std::chrono::steady_clock::now();
  std::chrono::milliseconds in_slices{0};
  const auto waited = [&] { return std::max(in_slices, elapsed_since(start)); };
  Watchdog watchdog(notice_.get(), rank(), world_size(), timeout_, awaited(operation));
  for (bool waiting = true; waiting;) {
    const bool is_over = operation.work->isCompleted();
    const auto left = std::max(timeout_ - waited(), std::chrono::milliseconds(1));
    const auto slice = std::min(kPollInterval, left);
    std::string cause;
    try {
      if (!operation.work->wait(slice)) cause = "it was aborted";
      waiting = false;
    } catch (const std::exception& error) {
      if (is_over) {
        cause = cause_of(error, operation, watchdog);
      } else if (!operation.work->isCompleted()) {
        in_slices += slice;
        const bool is_late = waited() >= timeout_;
        cause = is_late ? late(timeout_) + watchdog.who_does_not_wait()
                        : why_a_peer_is_missing(operation);
        if (!is_late) watchdog.look(waited());
      }
    }
    if (!cause.empty()) fail(operation, waited(), cause);
  }
}

// For a backend that aborts what is under way when a wait with a timeout has passed.
void Communicator::ask_until_it_is_over(Operation& operation) {
  const auto start = std::chrono::steady_clock::now();
  auto last_look = start;
  Watchdog watchdog(notice_.get(), rank(), world_size(), timeout_, awaited(operation));
  std::optional<std::string> ended;
  const auto has_ended = [&] {
    if ((ended = how_it_ended(operation))) return true;
    std::string cause;
    if (elapsed_since(last_look) >= kPollInterval) {
      last_look = std::chrono::steady_clock::now();
      cause = poll_peer_error(operation, start);
      watchdog.look(elapsed_since(start));
    }
    if (cause.empty() && elapsed_since(start) >= timeout_)
      cause = late(timeout_) + watchdog.who_does_not_wait();
    if (!cause.empty()) fail(operation, elapsed_since(start), cause);
    return false;
  };
  poll_until(Deadline::max(), has_ended, kOften);
  if (!ended->empty()) fail(operation, elapsed_since(start), *ended);
}

std::string Communicator::why_a_peer_is_missing(const Operation& operation) const {
  if (!notice_) return "";
  auto sentence = notice_->read(operation.issued_before);
  if (!sentence && is_instances_) sentence = notice_->ended_peer(operation.sequence_number);
  // Since this rank last looked, the peer may have completed the operation, and failed after it.
  return sentence && !how_it_ended(operation) ? *sentence : "";
}

// A rank that fails posts its error in the store, and if it serves the store, takes it along; a
// device that waits for that rank would notice nothing. Over Gloo the closed connection shows it.
std::string Communicator::poll_peer_error(const Operation& operation,
                                          std::chrono::steady_clock::time_point since) {
  if (auto sentence = why_a_peer_is_missing(operation); !sentence.empty()) return sentence;
  if (!notice_ || !notice_->server_has_left()) return "";
  if (!without_store_since_) without_store_since_ = std::chrono::steady_clock::now();
  if (elapsed_since(std::max(since, *without_store_since_)) < kPatienceWithoutStore) return "";
  return "the store of the group is gone, and with it, it seems, the rank that served it";
}

std::chrono::milliseconds Communicator::elapsed_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() -
                                                               start);
}

std::string Communicator::awaited(const Operation& operation) const {
  return text_of(operation) + " (collective " + std::to_string(operation.sequence_number) + ")";
}

std::string Communicator::late(std::chrono::milliseconds timeout) const {
  return "no answer from a peer within the timeout of " + std::to_string(timeout.count()) +
         " ms (" +
         (timeout_is_given_ && timeout == timeout_ ? "the option timeout"
                                                   : "InitOptions::timeout") +
         ")";
}

// A backend's own deadline counts from when the operation was issued, which may be long before it
// is waited for, and its message names only the backend's files and lines.
std::string Communicator::cause_of(const std::exception& error, const Operation& operation,
                                   Watchdog& watchdog) const {
  const auto timeout = backend_timeout(operation.tensors.front().device().type());
  if (elapsed_since(operation.issued_at) < timeout) return first_line(error);
  return late(timeout) + watchdog.who_does_not_wait();
}

}  // namespace lockstep
