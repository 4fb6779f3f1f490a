#pragma once

#include <chrono>
#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

namespace lockstep {

// What `act` returns or throws; or std::runtime_error with what `excuse` says, where it has not
// ended within `limit`. For what may block for ever: it runs in a thread, which is left behind if
// it hangs. So `act` must own all that it touches. Local; blocks for `limit`, and for `excuse`.
template <class Result>
Result in_time(std::chrono::milliseconds limit, std::function<Result()> act,
               const std::function<std::string()>& excuse) {
  const auto answer = std::make_shared<std::promise<Result>>();
  auto future = answer->get_future();
  std::thread thread([answer, act = std::move(act)] {
    try {
      answer->set_value(act());
    } catch (...) {
      answer->set_exception(std::current_exception());
    }
  });
  if (future.wait_for(limit) == std::future_status::ready) {
    thread.join();
    return future.get();
  }
  thread.detach();
  throw std::runtime_error(excuse());
}

}  // namespace lockstep
