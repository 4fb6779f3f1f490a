#include "train/spawn.h"

#include "ddp/base/waiting.h"
#include "ddp/rendezvous/listening.h"
#include "ddp/rendezvous/store_at.h"
#include "train/spawn/child.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <netinet/in.h>
#include <sys/socket.h>
#include <system_error>
#include <utility>
#include <vector>

namespace lockstep {

namespace {

constexpr std::chrono::milliseconds kTimeToTerminate{1000};
// Longer than a peer needs to see that a rank has gone, and to unwind.
constexpr std::chrono::milliseconds kPatienceForTheCause{2000};

void check(int process_count, const SpawnOptions& options) {
  if (process_count < 1)
    throw UsageError("spawn: process_count is " + std::to_string(process_count) +
                     ", expected at least 1");
  if (options.timeout && options.timeout->count() <= 0)
    throw UsageError("spawn: timeout is " + std::to_string(options.timeout->count()) +
                     " ms, expected a positive time");
  std::error_code no_proc;
  std::ptrdiff_t threads = 0;
  for (std::filesystem::directory_iterator each("/proc/self/task", no_proc), end;
       !no_proc && each != end; each.increment(no_proc))
    ++threads;
  if (threads > 1)
    throw UsageError(
        "spawn forks, and a process forked beside other threads may hang: this one has " +
        std::to_string(threads) +
        " threads; call spawn at the start of main(), before any backward pass, data "
        "loader or process group");
}

// Listens on loopback at a free port; the store's clients may connect from now on.
StoreSocket listen_at_free_port(RendezvousAddress& point) {
  StoreSocket listening = listen_for_store(point);
  sockaddr_in address{};
  socklen_t size = sizeof address;
  if (listening.number < 0 ||
      ::getsockname(listening.number, reinterpret_cast<sockaddr*>(&address), &size) != 0)
    throw Error("spawn cannot listen on " + point.address + ": " +
                (listening.number < 0 ? listening.problem : std::strerror(errno)));
  point.port = ntohs(address.sin_port);
  return listening;
}

// The processes of one call, of which none is left when this is destroyed.
class Processes {
 public:
  ~Processes() { end_all(); }

  void add(Child child) { children_.push_back(std::move(child)); }

  // True if all have ended, or one has failed and nothing that ended since explains it better.
  bool is_over() {
    bool has_running = false;
    for (Child& each : children_)
      if (!each.look()) has_running = true;
    if (!has_running) return true;
    const Child* const first = first_failure();
    if (first == nullptr) return false;
    if (!first->failure()->is_consequence) return true;
    if (!patience_) patience_ = deadline_in(kPatienceForTheCause);
    return std::chrono::steady_clock::now() >= *patience_;
  }

  void end_all() {
    const auto has_ended = [this] {
      bool all = true;
      for (Child& each : children_) all = each.look() && all;
      return all;
    };
    for (Child& each : children_) each.send_terminate();
    if (poll_until(deadline_in(kTimeToTerminate), has_ended)) return;
    for (Child& each : children_) each.kill_and_wait();
  }

  // Causes come before consequences, and what ended without a report, which has no time, first.
  const Child* first_failure() const {
    const Child* first = nullptr;
    for (const Child& each : children_) {
      if (!each.failure()) continue;
      if (first == nullptr || *each.failure() < *first->failure()) first = &each;
    }
    return first;
  }

 private:
  std::vector<Child> children_;
  std::optional<Deadline> patience_;
};

}  // namespace

SpawnError::SpawnError(int rank, const std::string& sentence) : Error(sentence), rank_(rank) {}

void spawn(int process_count, const std::function<void(int rank)>& function,
           const SpawnOptions& options) {
  check(process_count, options);
  const Deadline deadline = options.timeout ? deadline_in(*options.timeout) : Deadline::max();
  RendezvousAddress point{.address = "127.0.0.1", .port = 0};
  const StoreSocket listening = listen_at_free_port(point);
  Processes processes;
  for (int rank = 0; rank < process_count; ++rank)
    processes.add(Child::start({rank, process_count}, point, listening.number, function));
  // Its thread starts when all have been forked.
  const auto store = serve_store(point, listening, std::chrono::minutes(1));
  const bool is_over = poll_until(deadline, [&] { return processes.is_over(); });
  std::optional<SpawnError> error;  // found before the others are ended, which is no failure
  if (const Child* const first = processes.first_failure(); first != nullptr)
    error.emplace(first->rank(), first->failure()->sentence);
  processes.end_all();
  if (error) throw *error;
  if (!is_over)
    throw Error("spawn: the " + std::to_string(process_count) + " processes did not return in " +
                std::to_string(options.timeout->count()) + " ms, and were ended");
}

}  // namespace lockstep
