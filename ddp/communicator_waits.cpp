// How a communicator waits: on the host, on a stream, and for what a stream waits for.
#include "ddp/backend/nccl.h"
#include "ddp/communicator.h"
#include "ddp/device.h"
#include "ddp/errors.h"
#include "ddp/long_wait.h"

#include <torch/torch.h>

#include <algorithm>
#include <thread>

namespace lockstep {

namespace {

constexpr std::chrono::milliseconds kPollInterval{100};
constexpr std::chrono::seconds kPatienceWithoutStore{15};

// Empty where it went well.
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

void Communicator::let_go_of_devices() const {
  for (const c10::Device& device : group_->getDeviceTypes()) {
    if (streams_wait(device)) abort_backend(backend_of(device.type()));
  }
}

// What NCCL has aborted by itself looks as if it had gone well; the backend knows better. Asking
// throws where the device is lost.
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

// Note [Waits on a device]. A wait with a timeout would be one of the host, and one that passes
// would abort what is under way.
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
      cause = late();
    } else {
      // A look into the store is an exchange with a server.
      const auto now = std::chrono::steady_clock::now();
      if (now - std::max(since, last_look_) < kPollInterval) return;
      last_look_ = now;
      cause = heard(since);
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
  for (look_at_what_is_under_way(); !is_over(); look_at_what_is_under_way()) {
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

void Communicator::wait_for_what_is_under_way() {
  look_until([&] { return under_way_.empty(); });
}

// Note [One place that waits]
// A simulated world runs one rank at a time and hands over where a rank blocks, so blocking happens
// here and nowhere else in this library, in short slices. A slice that ends early is an exception
// from c10d::Work::wait, and so is a failed operation; they are told apart by asking, before the
// slice, whether the operation was already over.
void Communicator::wait_in_slices(Operation& operation) {
  const auto start = std::chrono::steady_clock::now();
  LongWait long_wait(notice_.get(), rank(), world_size(), timeout_);
  for (bool waiting = true; waiting;) {
    const bool is_over = operation.work->isCompleted();
    const auto left = std::max(timeout_ - elapsed_since(start), std::chrono::milliseconds(1));
    std::string cause;
    try {
      if (!operation.work->wait(std::min(kPollInterval, left))) cause = "it was aborted";
      waiting = false;
    } catch (const std::exception& error) {
      if (is_over) {
        cause = first_line(error);
      } else if (elapsed_since(start) >= timeout_ && !operation.work->isCompleted()) {
        cause = late() + long_wait.who_does_not_wait();
      } else if (!operation.work->isCompleted()) {
        cause = told().value_or("");
        long_wait.look(elapsed_since(start));
      }
    }
    if (!cause.empty()) fail(operation, elapsed_since(start), cause);
  }
}

// For a backend that aborts what is under way when a wait with a timeout has passed.
void Communicator::ask_until_it_is_over(Operation& operation) {
  const auto start = std::chrono::steady_clock::now();
  auto last_look = start;
  LongWait long_wait(notice_.get(), rank(), world_size(), timeout_);
  std::optional<std::string> ended;
  while (!(ended = how_it_ended(operation))) {
    std::this_thread::sleep_for(std::chrono::microseconds(50));
    std::string cause;
    if (elapsed_since(last_look) >= kPollInterval) {
      last_look = std::chrono::steady_clock::now();
      cause = heard(start);
      long_wait.look(elapsed_since(start));
    }
    if (cause.empty() && elapsed_since(start) >= timeout_)
      cause = late() + long_wait.who_does_not_wait();
    if (!cause.empty()) fail(operation, elapsed_since(start), cause);
  }
  if (!ended->empty()) fail(operation, elapsed_since(start), *ended);
}

// A rank that fails tells so in the store, and takes it along if it serves it; a device that waits
// for it would notice nothing. Over Gloo the connection tells.
std::string Communicator::heard(std::chrono::steady_clock::time_point since) {
  if (const auto sentence = told()) return *sentence;
  if (!notice_ || !notice_->server_has_left()) return "";
  if (!without_store_since_) without_store_since_ = std::chrono::steady_clock::now();
  if (elapsed_since(std::max(since, *without_store_since_)) < kPatienceWithoutStore) return "";
  return "the store of the group is gone, and with it, it seems, the rank that served it";
}

std::chrono::milliseconds Communicator::elapsed_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() -
                                                               start);
}

std::string Communicator::late() const {
  return "no answer from a peer within the timeout of " + std::to_string(timeout_.count()) + " ms";
}

}  // namespace lockstep
