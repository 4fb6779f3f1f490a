#include "ddp/backend/nccl/attempt.h"

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace lockstep {

namespace {

constexpr std::chrono::milliseconds kLookInterval{100};
constexpr std::chrono::seconds kPatienceAtExit{3};

struct Course {
  std::mutex mutex;
  std::condition_variable changed;
  bool is_over = false;
  bool is_given_up = false;
  bool is_left = false;  // by the thread
  std::exception_ptr problem;
};

// Those that were given up and are to be awaited; leaked, since it is for the end of the process.
class LeftBehind {
 public:
  static void add(const std::shared_ptr<Course>& course) {
    LeftBehind& all = instance();
    const std::lock_guard lock(all.mutex_);
    if (all.courses_.empty()) std::atexit([] { instance().wait(); });
    all.courses_.push_back(course);
  }

 private:
  static LeftBehind& instance() {
    static auto* const all = new LeftBehind;
    return *all;
  }

  void wait() {
    const std::lock_guard all_lock(mutex_);
    const auto deadline = std::chrono::steady_clock::now() + kPatienceAtExit;
    for (const auto& each : courses_) {
      std::unique_lock lock(each->mutex);
      each->changed.wait_until(lock, deadline, [&] { return each->is_left; });
    }
  }

  std::mutex mutex_;
  std::vector<std::shared_ptr<Course>> courses_;
};

void run(Course& course, std::function<void()> call, std::function<void()> clean_up) {
  std::exception_ptr problem;
  try {
    call();
  } catch (...) {
    problem = std::current_exception();
  }
  std::unique_lock lock(course.mutex);
  const bool is_of_no_use = problem || course.is_given_up;
  course.problem = std::exchange(problem, nullptr);
  course.is_over = true;
  course.changed.notify_all();
  lock.unlock();
  if (is_of_no_use) clean_up();
  call = clean_up = nullptr;
  lock.lock();
  course.is_left = true;
  course.changed.notify_all();
}

}  // namespace

std::string make_attempt(Attempt attempt, const std::string& late) {
  const auto course = std::make_shared<Course>();
  std::thread thread([course, call = std::exchange(attempt.call, nullptr),
                      clean_up = std::exchange(attempt.clean_up, nullptr)]() mutable {
    run(*course, std::move(call), std::move(clean_up));
  });
  std::string cause;
  const auto deadline = std::chrono::steady_clock::now() + attempt.time;
  std::unique_lock lock(course->mutex);
  while (!course->is_over && cause.empty()) {
    const auto look = std::chrono::steady_clock::now() + kLookInterval;
    course->changed.wait_until(lock, std::min(look, deadline), [&] { return course->is_over; });
    if (course->is_over) break;
    // Asking takes time, in which it may be over.
    lock.unlock();
    if (attempt.told) cause = attempt.told();
    if (cause.empty() && std::chrono::steady_clock::now() >= deadline) cause = late;
    lock.lock();
  }
  if (!course->is_over) {
    course->is_given_up = true;
    thread.detach();
    if (attempt.is_awaited_at_exit) LeftBehind::add(course);
    return cause;
  }
  lock.unlock();
  thread.join();
  if (course->problem) std::rethrow_exception(course->problem);
  return "";
}

}  // namespace lockstep
