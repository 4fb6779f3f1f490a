#include "tests/fake_cuda/communicator.h"

#include "tests/fake_cuda/device.h"
#include "tests/fake_cuda/journal.h"
#include "tests/fake_cuda/rendezvous.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <poll.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <utility>

namespace lockstep::fake_cuda {

namespace {

constexpr int kLookEachMilliseconds = 5;
constexpr std::chrono::milliseconds kLate{500};

std::string next_name() {
  static std::atomic<int> count{0};
  return "comm" + std::to_string(count++);
}

bool losses_are_silent() {
  const char* const link = std::getenv("LOCKSTEP_FAKE_CUDA_LINK");
  return link != nullptr && std::string(link) == "nvlink";
}

// Precedes a message, so that ranks notice when they mean different operations.
struct Label {
  std::uint64_t number = 0;
  std::uint64_t bytes = 0;
  char fingerprint[64] = {};
};

struct Transfer {
  Message message;
  Label label;
  std::size_t moved = 0;  // of the label and the bytes together
  bool is_stuck = false;

  std::size_t whole() const { return sizeof(Label) + message.bytes; }
  bool is_over() const { return moved == whole(); }
  char* next(std::size_t& room) {
    if (moved < sizeof(Label)) {
      room = sizeof(Label) - moved;
      return reinterpret_cast<char*>(&label) + moved;
    }
    room = whole() - moved;
    return message.data + (moved - sizeof(Label));
  }
};

enum class Step { kWent, kLater, kGone };

Step send_some(int socket, Transfer& transfer) {
  std::size_t room = 0;
  char* const from = transfer.next(room);
  const ssize_t some = ::send(socket, from, room, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (some > 0) transfer.moved += static_cast<std::size_t>(some);
  if (some > 0) return Step::kWent;
  return errno == EAGAIN || errno == EINTR ? Step::kLater : Step::kGone;
}

Step receive_some(int socket, Transfer& transfer) {
  std::size_t room = 0;
  char* const to = transfer.next(room);
  const ssize_t some = ::recv(socket, to, room, MSG_DONTWAIT);
  if (some > 0) transfer.moved += static_cast<std::size_t>(some);
  if (some > 0) return Step::kWent;
  return some < 0 && (errno == EAGAIN || errno == EINTR) ? Step::kLater : Step::kGone;
}

}  // namespace

Communicator::Communicator(int rank, int size) : rank_(rank), size_(size), name_(next_name()) {}

Communicator::~Communicator() {
  for (const int socket : sockets_)
    if (socket >= 0) ::close(socket);
}

bool Communicator::is_to_end() const {
  return is_aborted_ || device_is_lost();
}

void Communicator::spin() {
  std::unique_lock lock(mutex_);
  while (!is_to_end()) wait_a_moment(lock);
}

// The device may be lost without a word.
void Communicator::wait_a_moment(std::unique_lock<std::mutex>& lock) {
  changed_.wait_for(lock, std::chrono::milliseconds(kLookEachMilliseconds));
}

ncclResult_t Communicator::connect(std::uint16_t port, const std::string& gpu, bool is_blocking,
                                   bool never) {
  if (is_blocking) return connect_now(port, gpu, never);
  state_ = ncclInProgress;
  is_connecting_ = true;
  std::thread([self = shared_from_this(), port, gpu, never] {
    self->state_ = self->connect_now(port, gpu, never);
    const std::lock_guard lock(self->mutex_);
    self->is_connecting_ = false;
    self->changed_.notify_all();
  }).detach();
  return ncclInProgress;
}

ncclResult_t Communicator::connect_now(std::uint16_t port, const std::string& gpu, bool never) {
  if (never) {
    spin();
    return ncclInternalError;
  }
  Connected met = rendezvous(port, {rank_, size_, gpu}, is_aborted_);
  if (met.problem.empty()) {
    sockets_ = std::move(met.sockets);
    note("connected", name_);
    return ncclSuccess;
  }
  set_last_error(met.problem);
  note("not_connected", name_ + " " + met.problem);
  return met.is_misuse ? ncclInvalidUsage : ncclRemoteError;
}

void Communicator::put(Stream& stream, QueuedCall call) {
  std::uint64_t number = 0;
  {
    const std::lock_guard lock(mutex_);
    number = issued_++;
  }
  note("issues", name_ + "." + std::to_string(number) + " " + call.name + " " + call.fingerprint +
                     " on " + stream.name());
  stream.give([self = shared_from_this(), call = std::move(call), number] {
    {
      std::unique_lock lock(self->mutex_);
      while (!self->is_to_end() && self->served_ != number) self->wait_a_moment(lock);
    }
    self->run(call, number);
    const std::lock_guard lock(self->mutex_);
    self->served_ = std::max(self->served_, number + 1);
    self->changed_.notify_all();
  });
}

void Communicator::run(const QueuedCall& call, std::uint64_t number) {
  const std::string about = name_ + "." + std::to_string(number) + " " + call.name;
  note("begins", about);
  bool is_done = false;
  if (is_to_end()) {
    is_done = false;
  } else if (!call.fault.empty() && call.fault != "late") {
    if (call.fault.rfind("async:", 0) == 0) state_ = nccl_error_of(call.fault.substr(6));
    spin();
  } else {
    std::vector<Message> out;
    std::vector<Message> in;
    call.prepare(out, in);
    if (call.fault == "late") deliver_late(call.fingerprint, number, std::exchange(out, {}));
    is_done = exchange(call.fingerprint, number, std::move(out), std::move(in));
    if (is_done) call.finish();
  }
  note(is_done ? "ends" : "is_aborted", about);
}

void Communicator::deliver_late(const std::string& fingerprint, std::uint64_t number,
                                const std::vector<Message>& out) {
  std::vector<std::vector<char>> held;
  for (const Message& each : out) held.emplace_back(each.data, each.data + each.bytes);
  std::thread([self = shared_from_this(), fingerprint, number, out = std::vector<Message>(out),
               held]() mutable {
    {
      std::unique_lock lock(self->mutex_);
      self->changed_.wait_for(lock, kLate, [&] { return self->is_aborted_.load(); });
    }
    if (self->is_aborted_) return note("loses", self->name_ + "." + std::to_string(number));
    for (std::size_t i = 0; i < out.size(); ++i) out[i].data = held[i].data();
    self->exchange(fingerprint, number, out, {});
  }).detach();
}

bool Communicator::exchange(const std::string& fingerprint, std::uint64_t number,
                            std::vector<Message> out, std::vector<Message> in) {
  Label label{number, 0, {}};
  fingerprint.copy(label.fingerprint, sizeof label.fingerprint - 1);
  const auto transfers_of = [&](std::vector<Message>& messages, bool has_label) {
    std::vector<Transfer> transfers;
    for (const Message& message : messages) {
      transfers.push_back({message, has_label ? label : Label{}, 0, false});
      transfers.back().label.bytes = has_label ? message.bytes : 0;
    }
    return transfers;
  };
  std::vector<Transfer> sending = transfers_of(out, true);
  std::vector<Transfer> receiving = transfers_of(in, false);
  const auto socket_of = [&](const Transfer& transfer) {
    return sockets_[static_cast<std::size_t>(transfer.message.peer)];
  };
  const auto gone = [&](Transfer& transfer) {
    transfer.is_stuck = true;
    if (losses_are_silent()) return;
    set_last_error("rank " + std::to_string(transfer.message.peer) + " closed its connection");
    state_ = ncclRemoteError;
  };
  for (bool is_over = false; !is_over;) {
    if (is_to_end()) return false;
    is_over = true;
    std::vector<pollfd> looks;
    for (Transfer& each : sending) {
      while (!each.is_over() && !each.is_stuck) {
        const Step step = send_some(socket_of(each), each);
        if (step == Step::kGone) gone(each);
        if (step == Step::kLater) break;
      }
      if (!each.is_over()) is_over = false;
      if (!each.is_over() && !each.is_stuck) looks.push_back({socket_of(each), POLLOUT, 0});
    }
    for (Transfer& each : receiving) {
      while (!each.is_over() && !each.is_stuck) {
        const Step step = receive_some(socket_of(each), each);
        if (step == Step::kGone) gone(each);
        if (step == Step::kLater) break;
        if (each.moved == sizeof(Label) &&
            (each.label.number != number || each.label.bytes != each.message.bytes ||
             std::strcmp(each.label.fingerprint, label.fingerprint) != 0))
          give_up("rank " + std::to_string(rank_) + " is at operation " + std::to_string(number) +
                  " of " + name_ + ", " + fingerprint + ", and rank " +
                  std::to_string(each.message.peer) + " at " + std::to_string(each.label.number) +
                  ", " + each.label.fingerprint + ": over NCCL this hangs");
      }
      if (!each.is_over()) is_over = false;
      if (!each.is_over() && !each.is_stuck) looks.push_back({socket_of(each), POLLIN, 0});
    }
    if (!is_over) ::poll(looks.data(), looks.size(), kLookEachMilliseconds);
  }
  return true;
}

void Communicator::abort() {
  is_aborted_ = true;
  std::unique_lock lock(mutex_);
  changed_.notify_all();
  // Operations that are behind something else on their stream end when it gets there.
  while (is_connecting_) changed_.wait(lock);
  for (int& socket : sockets_)
    if (socket >= 0) ::shutdown(socket, SHUT_RDWR);
}

void Communicator::finalize() {
  std::uint64_t number = 0;
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return served_ == issued_; });
    number = issued_++;
  }
  std::vector<Message> out;
  for (int peer = 0; peer < size_; ++peer)
    if (peer != rank_) out.push_back({peer, nullptr, 0});
  exchange("goodbye", number, out, out);
  const std::lock_guard lock(mutex_);
  served_ = issued_;
}

}  // namespace lockstep::fake_cuda
