#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

namespace lockstep::fake_cuda {

// Work that is done in order, by a thread of its own, which starts with the stream: on a device
// none comes with later work. A stream lives as long as the process.
class Stream {
 public:
  static std::shared_ptr<Stream> started(int device, const std::string& name);

  void give(std::function<void()> work);
  bool is_idle();
  // Until what it was given so far is done.
  void wait();

  int device() const { return device_; }
  const std::string& name() const { return name_; }

 private:
  Stream(int device, std::string name) : device_(device), name_(std::move(name)) {}
  void work_on();

  const int device_;
  const std::string name_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> work_;
  std::uint64_t given_ = 0;
  std::uint64_t done_ = 0;
};

// A place in a stream, which may be recorded again and again.
class Event {
 public:
  void record(Stream& stream);
  bool is_over();
  // Until the last recording before this call is passed; nothing where there is none.
  void wait();
  // Returns a function that makes another stream wait for it.
  std::function<void()> wait_in_stream();
  std::chrono::steady_clock::time_point passed_at();

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    std::uint64_t recorded = 0;
    std::uint64_t passed = 0;
    std::chrono::steady_clock::time_point at;
  };
  static void wait_for(State& state, std::uint64_t number);
  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace lockstep::fake_cuda
