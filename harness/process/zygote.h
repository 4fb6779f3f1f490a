// A server process that forks worlds on request: children of a process with threads, or of one that
// used CUDA, cannot run LibTorch.
//
// It has its own process group, so that a terminal's Ctrl-C reaches the runner alone, and ends with
// the runner: it serves until its end of the socket closes, for whatever reason. If it has not
// ended two seconds after the runner's death, a signal ends it.
#pragma once

#include "harness/process/descriptor.h"
#include "harness/process/single_threaded.h"

#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <sys/types.h>

namespace lockstep {

// The messages between a runner and a server. The reply to a request is a reply or a failure, whose
// text says why; meanwhile a stop may arrive. A client that uses the server's descriptor, bypassing
// Zygote, may also receive one message that the request is late, which then runs to its end.
enum class ServerWord : uint32_t { request, reply, failure, stop, late, go_on };

struct ZygoteServer {
  // Runs first, in the server process.
  std::function<void()> prepare;
  // Handles one request. It must end soon after `stop_descriptor` becomes readable (GroupWatch
  // takes it), leaving nothing running. Its exception is thrown in the runner, as a TierError. The
  // descriptor is the socket: its readable bytes are the beginning of a message.
  std::function<std::string(const std::string& request, int stop_descriptor)> serve;
  // Runs last, when the runner is gone or has closed the socket.
  std::function<void()> finish = nullptr;
};

// By the functions of these names of a server, which lives as long.
template <class Server>
ZygoteServer served_by(const std::shared_ptr<Server>& server) {
  return {.prepare = [server] { server->prepare(); },
          .serve = [server](const std::string& request,
                            int stop) { return server->serve(request, stop); },
          .finish = [server] { server->finish(); }};
}

class Zygote {
 public:
  // Forks; does not wait for `prepare`. The server closes `close_there`: descriptors of this
  // process alone, such as its ends of other servers' sockets. Throws TierError if a thread was
  // made since the proof.
  Zygote(const SingleThreaded& alone, const ZygoteServer& server,
         std::span<const int> close_there = {});

  // Ends the server: sends a request, and kills it if that takes more than two seconds.
  ~Zygote();
  Zygote(const Zygote&) = delete;
  Zygote& operator=(const Zygote&) = delete;

  // Blocks until the reply, at most `limit`. One thread at a time. Throws TierError if the server
  // failed, died (naming its pid and how) or did not reply; it is unusable then. Throws Interrupted
  // if stop() came before the request was sent.
  std::string request(const std::string& text, std::chrono::milliseconds limit);

  // Makes the current request end soon, and prevents further ones. Any thread.
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

}  // namespace lockstep
