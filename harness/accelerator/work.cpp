#include "harness/accelerator/work.h"

#include "harness/accelerator/devices.h"
#include "harness/accelerator/ledger.h"

#include <c10/core/StreamGuard.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <utility>

namespace lockstep::accelerator {

namespace {

std::exception_ptr failure_saying(const std::string& sentence) {
  return std::make_exception_ptr(
      c10::DistBackendError({__func__, __FILE__, static_cast<std::uint32_t>(__LINE__)}, sentence));
}

}  // namespace

bool InnerWork::is_over() {
  const std::lock_guard lock(mutex_);
  if (work_ && work_->isCompleted()) {
    failure_ = work_->exception();
    work_.reset();
  }
  return !work_;
}

std::exception_ptr InnerWork::failure() {
  return is_over() ? failure_ : nullptr;
}

std::shared_ptr<InnerWork> InnerWork::before() {
  const std::lock_guard lock(mutex_);
  return before_;
}

bool InnerWork::is_behind_a_failure() {
  while (const auto previous = before()) {
    if (!previous->is_over()) return previous->is_behind_a_failure();
    if (previous->failure()) return true;
    auto earlier = previous->before();
    const std::lock_guard lock(mutex_);
    before_ = std::move(earlier);
  }
  return false;
}

bool InnerWork::wait_until_over(const std::function<bool()>& give_up,
                                std::chrono::milliseconds timeout) {
  const auto start = std::chrono::steady_clock::now();
  constexpr std::chrono::milliseconds kSlice{100};
  while (!is_over()) {
    if (give_up()) return false;
    const auto passed = std::chrono::duration_cast<std::chrono::milliseconds>(
        std::chrono::steady_clock::now() - start);
    if (timeout != kNoTimeout && passed >= timeout) return false;
    c10::intrusive_ptr<c10d::Work> work;
    {
      const std::lock_guard lock(mutex_);
      work = work_;
    }
    try {
      if (work) work->wait(timeout == kNoTimeout ? kSlice : std::min(kSlice, timeout - passed));
    } catch (const std::exception&) {
      // The slice is over, or the work is and failed, which failure() reports.
    }
  }
  return true;
}

CollectiveWork::CollectiveWork(int rank, c10d::OpType type, Parts parts)
    : c10d::Work(rank, type), parts_(std::move(parts)), outputs_(parts_.outputs) {}

// Without a wait the memory is not reused before the stream is done with it.
CollectiveWork::~CollectiveWork() {
  for (const at::Tensor& each : parts_.tensors) {
    if (each.storage().data() != nullptr)
      Ledger::instance().use_on(each.storage().data(), parts_.stream);
  }
}

// A host that saw it complete need not wait for it on a stream.
bool CollectiveWork::isCompleted() {
  if (exception() != nullptr) return true;
  if (!parts_.inner->is_over()) return false;
  Ledger::instance().host_knows(parts_.end_clock);
  return true;
}

bool CollectiveWork::isSuccess() const {
  return exception() == nullptr;
}

std::exception_ptr CollectiveWork::exception() const {
  {
    const std::lock_guard lock(own_mutex_);
    if (timed_out_) return timed_out_;
  }
  if (*parts_.is_aborted && !parts_.inner->is_over()) {
    return failure_saying(parts_.name + " was aborted with the group that it belongs to");
  }
  return parts_.inner->failure();
}

void CollectiveWork::synchronize() {
  const c10::Stream current = current_stream(parts_.device);
  if (parts_.exit_is_ordered) {
    parts_.end.block(current);
  } else {
    finish_background_of(parts_.stream);
  }
  const std::lock_guard lock(own_mutex_);
  parts_.tensors.clear();
}

bool CollectiveWork::wait(std::chrono::milliseconds timeout) {
  const bool is_barrier = opType_ == c10d::OpType::BARRIER;
  // The timeout is checked first: the simulation would wait for the values longer than that.
  if (timeout != kNoTimeout) wait_on_host(timeout);
  synchronize();
  if (is_barrier && timeout == kNoTimeout) {
    Ledger::instance().host_knows(Ledger::instance().record(current_stream(parts_.device)));
    Ledger::instance().host_waited("barrier");
  }
  return true;
}

void CollectiveWork::wait_on_host(std::chrono::milliseconds timeout) {
  Ledger::instance().host_waited("wait for " + parts_.name + " with a timeout");
  const bool is_over =
      parts_.inner->wait_until_over([this] { return parts_.is_aborted->load(); }, timeout);
  if (!is_over) {
    {
      const std::lock_guard lock(own_mutex_);
      if (!timed_out_) {
        timed_out_ = failure_saying(parts_.name + " timed out in a blocking wait of " +
                                    std::to_string(timeout.count()) + " ms; its group is aborted");
      }
    }
    *parts_.is_aborted = true;
  }
  if (const std::exception_ptr failure = exception()) {
    *parts_.is_aborted = true;
    std::rethrow_exception(failure);
  }
  Ledger::instance().host_knows(parts_.end_clock);
}

void CollectiveWork::abort() {
  *parts_.is_aborted = true;
}

std::vector<at::Tensor> CollectiveWork::result() {
  return outputs_;
}

// As NCCL's: complete at once, and a caller that waits for it waits on a stream.
c10::intrusive_ptr<c10::ivalue::Future> CollectiveWork::getFuture() {
  const std::lock_guard lock(own_mutex_);
  if (!future_) {
    future_ = c10::make_intrusive<c10::ivalue::Future>(
        c10::ListType::create(c10::TensorType::get()),
        std::vector<c10::Device>{{c10::DeviceType::PrivateUse1, parts_.device}});
    const c10::StreamGuard guard(parts_.stream);
    future_->markCompleted(c10::IValue(outputs_));
  }
  return future_;
}

}  // namespace lockstep::accelerator
