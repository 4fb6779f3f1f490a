// A server process, forked while this program has one thread, that forks worlds on request: the
// children of a process with threads, or of one that used CUDA, are not fit to run LibTorch.
//
// It has a process group of its own, so that a terminal's Ctrl-C reaches the runner alone, and ends
// with the runner: it serves until its end of the socket closes, whoever closed it and how. Should
// that not end it within two seconds of the runner's death, a signal does.
#pragma once

#include "harness/process/descriptor.h"

#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <sys/types.h>

namespace lockstep {

// What goes over the socket between a runner and a server. A request is answered by a reply or by a
// failure, whose text says why; meanwhile a stop may come. Who talks to the server past Zygote, by
// its descriptor, may also hear that the request is late, once, and then lets it go on to its end.
enum class ServerWord : uint32_t { request, reply, failure, stop, late, go_on };

struct ZygoteServer {
  // Runs first, in the server process.
  std::function<void()> prepare;
  // Answers one request. It must end soon after `stop_descriptor` becomes readable (GroupWatch
  // takes it), leaving nothing running. What it throws is thrown in the runner, as a TierError. The
  // descriptor is the socket: what is read of it is a message's beginning.
  std::function<std::string(const std::string& request, int stop_descriptor)> serve;
  // Runs last, when the runner is gone or has let go.
  std::function<void()> finish = nullptr;
};

class Zygote {
 public:
  // Forks; does not wait for `prepare`. The server closes `close_there`: what this process has for
  // itself alone, such as its ends of other servers' sockets. Throws TierError if this process has
  // a second thread.
  explicit Zygote(const ZygoteServer& server, std::span<const int> close_there = {});

  // Ends the server: asks, and kills it where that takes more than two seconds.
  ~Zygote();
  Zygote(const Zygote&) = delete;
  Zygote& operator=(const Zygote&) = delete;

  // Blocks until the reply, at most `limit`. One thread at a time. Throws TierError if the server
  // failed, died (naming its pid and how) or did not answer; it is of no further use then. Throws
  // Interrupted if stop() came before the request went out.
  std::string request(const std::string& text, std::chrono::milliseconds limit);

  // Makes the request being served end soon, and lets no other go out. Any thread.
  void stop();

  pid_t pid() const { return pid_; }
  int descriptor() const { return socket_.number(); }

 private:
  std::string receive_reply(std::chrono::steady_clock::time_point until);
  [[noreturn]] void fail(const std::string& what);
  void end(std::chrono::milliseconds patience);

  pid_t pid_ = -1;
  int status_ = 0;
  bool alive_ = false;
  Descriptor socket_;
  Descriptor process_;  // a pidfd
  std::mutex sending_;
  bool stopped_ = false;  // under sending_
};

// How many threads this process has.
int thread_count();

}  // namespace lockstep
