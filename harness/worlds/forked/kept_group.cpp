#include "harness/worlds/forked/kept_group.h"

#include "harness/process/message.h"

#include <array>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>

namespace lockstep {

namespace {
enum : uint32_t { kOrder, kReport, kProblem };
}

std::optional<std::string> KeptSocket::next() {
  if (!std::exchange(is_ready_, true)) report("");
  const auto order = receive_message(socket_);
  if (!order) return {};
  return order->text;
}

void KeptSocket::report(const std::string& text) {
  send_message(socket_, {kReport, text});
}

bool KeptSocket::report_problem(const std::string& why) {
  return !is_ready_ && send_message(socket_, {kProblem, why});
}

KeptGroup::KeptGroup(const SingleThreaded& alone, int processes,
                     const std::function<int(int, KeptSocket&)>& serve,
                     const std::vector<const KeptGroup*>& others) {
  std::vector<Descriptor> theirs;
  for (int index = 0; index < processes; ++index) {
    std::array<int, 2> ends{};
    checked(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), "a pair of sockets");
    sockets_.emplace_back(ends[0]);
    theirs.emplace_back(ends[1]);
  }
  group_ = std::make_unique<ChildGroup>(alone, processes, [&](int index) {
    for (const auto& socket : sockets_) ::close(socket.number());
    for (const auto* other : others)
      for (const auto& socket : other->sockets_) ::close(socket.number());
    const int own = theirs[static_cast<size_t>(index)].number();
    for (const auto& socket : theirs)
      if (socket.number() != own) ::close(socket.number());
    KeptSocket socket(own);
    return serve(index, socket);
  });
}

// Every process has reported or is gone when the wait is over: no message is waited for.
KeptGroup::Readiness KeptGroup::wait_until_ready(GroupWatch watch) {
  for (const auto& socket : sockets_) watch.reports.push_back(socket.number());
  Readiness made{.report = group_->wait(watch)};
  made.is_ready = is_whole();
  for (const auto& socket : sockets_) {
    const auto said = receive_message(socket.number());
    const bool has_problem = said && said->kind == kProblem;
    made.problems.push_back(has_problem ? said->text : "");
    made.is_ready = made.is_ready && !has_problem;
  }
  return made;
}

GroupReport KeptGroup::run(const std::string& order, GroupWatch watch) {
  for (const auto& socket : sockets_) {
    send_message(socket.number(), {kOrder, order});
    watch.reports.push_back(socket.number());
  }
  watch.good_status = -1;
  return group_->wait(watch);
}

// Every process has reported or is gone: this does not block.
std::optional<std::string> KeptGroup::report_of(int index) const {
  const auto report = receive_message(sockets_[static_cast<size_t>(index)].number());
  if (!report) return {};
  return report->text;
}

}  // namespace lockstep
