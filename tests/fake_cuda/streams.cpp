#include "tests/fake_cuda/streams.h"

#include <algorithm>
#include <thread>
#include <utility>

namespace lockstep::fake_cuda {

// Detached, as a device is: it does not end before the process that gave it work.
std::shared_ptr<Stream> Stream::started(int device, const std::string& name) {
  const std::shared_ptr<Stream> stream(new Stream(device, name));
  std::thread([stream] { stream->work_on(); }).detach();
  return stream;
}

void Stream::give(std::function<void()> work) {
  const std::lock_guard lock(mutex_);
  work_.push_back(std::move(work));
  ++given_;
  changed_.notify_all();
}

void Stream::work_on() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return !work_.empty(); });
    const auto work = std::move(work_.front());
    work_.pop_front();
    lock.unlock();
    work();
    lock.lock();
    ++done_;
    changed_.notify_all();
  }
}

bool Stream::is_idle() {
  const std::lock_guard lock(mutex_);
  return done_ == given_;
}

void Stream::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this, number = given_] { return done_ >= number; });
}

void Event::wait_for(State& state, std::uint64_t number) {
  std::unique_lock lock(state.mutex);
  state.changed.wait(lock, [&] { return state.passed >= number; });
}

void Event::record(Stream& stream) {
  std::uint64_t number = 0;
  {
    const std::lock_guard lock(state_->mutex);
    number = ++state_->recorded;
  }
  stream.give([state = state_, number] {
    const std::lock_guard lock(state->mutex);
    state->passed = std::max(state->passed, number);
    state->at = std::chrono::steady_clock::now();
    state->changed.notify_all();
  });
}

bool Event::is_over() {
  const std::lock_guard lock(state_->mutex);
  return state_->passed >= state_->recorded;
}

std::function<void()> Event::wait_in_stream() {
  const std::lock_guard lock(state_->mutex);
  return [state = state_, number = state_->recorded] { wait_for(*state, number); };
}

void Event::wait() {
  wait_in_stream()();
}

std::chrono::steady_clock::time_point Event::passed_at() {
  const std::lock_guard lock(state_->mutex);
  return state_->at;
}

}  // namespace lockstep::fake_cuda
