#include "cli/interrupt.h"

#include "cli/exit_codes.h"

#include <signal.h>
#include <unistd.h>

namespace lockstep::cli {

namespace {

std::atomic<bool> interrupted = false;
std::atomic<bool> was_signalled = false;
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler writes it");

void on_signal(int) {
  interrupted = true;
  if (was_signalled.exchange(true)) ::_exit(kInterrupted);
}

}  // namespace

const std::atomic<bool>& watch_interrupts() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::sigaction(signal, &action, nullptr);
  return interrupted;
}

void interrupt() {
  interrupted = true;
}

namespace {

std::atomic<bool> status_is_wanted = false;
struct sigaction before_status_requests {};

void on_status_request(int) {
  status_is_wanted = true;
}

}  // namespace

StatusRequests::StatusRequests() {
  struct sigaction action {};
  action.sa_handler = on_status_request;
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGUSR1, &action, &before_status_requests);
}

StatusRequests::~StatusRequests() {
  ::sigaction(SIGUSR1, &before_status_requests, nullptr);
}

bool StatusRequests::take() {
  return status_is_wanted.exchange(false);
}

}  // namespace lockstep::cli
