#include "cli/launch/watch_nodes.h"

#include "cli/exit_codes.h"
#include "harness/core/tier.h"
#include "harness/process/message.h"

#include <algorithm>
#include <optional>
#include <poll.h>
#include <utility>

namespace lockstep::cli {

namespace {

// Another node, as long as it is connected.
struct Link {
  int node = 0;
  std::string name;
  int socket = -1;
  PartialMessage heard{kNodeBytesMost};
  std::optional<ProgramEnd> end;
  bool is_gone = false;
};

bool say(const Link& link, NodeWord word, const std::string& text) {
  return send_message(link.socket, {static_cast<uint32_t>(word), text});
}

// Of all nodes: that of the rank that failed first; or, where no rank is to blame, what all did.
ProgramEnd first_of(const std::vector<ProgramEnd>& ends) {
  const auto is_like_the_first = [&](const ProgramEnd& end) {
    return end.is_alike && end.exit_code == ends.front().exit_code;
  };
  if (ends.size() > 1 && std::all_of(ends.begin(), ends.end(), is_like_the_first))
    return {.exit_code = ends.front().exit_code,
            .sentence = "every rank exited with code " + std::to_string(ends.front().exit_code)};
  const auto is_worse = [](const ProgramEnd& one, const ProgramEnd& other) {
    if ((one.exit_code == 0) != (other.exit_code == 0)) return one.exit_code != 0;
    return one.failed_at_ns < other.failed_at_ns;
  };
  return *std::min_element(ends.begin(), ends.end(), is_worse);
}

class Watch {
 public:
  Watch(const Zygote& server, const Descriptor& signals, const Nodes& nodes)
      : socket_(server.descriptor()), signals_(signals), own_(nodes.own) {
    for (const auto& other : nodes.others)
      links_.push_back({.node = other.node,
                        .name = "node " + std::to_string(other.node) + " (" + other.host + ")",
                        .socket = other.connection.number()});
  }

  ProgramEnd outcome() {
    send_message(socket_, {static_cast<uint32_t>(ServerWord::request), to_wire(own_)});
    while (!outcome_) {
      wait();
      decide();
    }
    return *outcome_;
  }

 private:
  void wait() {
    std::vector<pollfd> waited{{end_ ? -1 : socket_, POLLIN, 0}, {signals_.number(), POLLIN, 0}};
    for (const auto& link : links_) waited.push_back({link.is_gone ? -1 : link.socket, POLLIN, 0});
    ::poll(waited.data(), waited.size(), -1);
    if (waited[1].revents != 0) pass_on(std::to_string(signal_from(signals_)), nullptr);
    if (waited[0].revents != 0) receive_from_server();
    for (size_t at = 0; at < links_.size(); ++at)
      if (waited[at + 2].revents != 0) receive_from(links_[at]);
  }

  void receive_from_server() {
    const auto received = receive_message(socket_);
    if (!received) throw TierError("the process that watches over the ranks is gone");
    if (received->kind == static_cast<uint32_t>(ServerWord::failure))
      throw TierError(received->text);
    if (received->kind == kRankFailed) return end_all_ranks(nullptr);
    end_ = from_wire<ProgramEnd>(received->text, "the end of a program");
    if (own_.node != 0 && !links_.front().is_gone)
      say(links_.front(), NodeWord::ended, to_wire(*end_));
  }

  void receive_from(Link& link) {
    if (!link.heard.receive_from(link.socket)) return lose(link);
    const auto message = link.heard.whole();
    if (!message) return;
    link.heard = PartialMessage(kNodeBytesMost);
    switch (static_cast<NodeWord>(message->kind)) {
      case NodeWord::failed:
        return end_all_ranks(&link);
      case NodeWord::signalled:
        return pass_on(message->text, &link);
      case NodeWord::ended:
        link.end = from_wire<ProgramEnd>(message->text, "the end of a node's ranks");
        return;
      case NodeWord::outcome:
        outcome_ = from_wire<ProgramEnd>(message->text, "the end of a launch");
        return;
      default:
        return lose(link);
    }
  }

  // A node that has ended its ranks, and has said so, may go.
  void lose(Link& link) {
    link.is_gone = true;
    if (link.end) return;
    link.end = {.exit_code = kUsage,
                .sentence = link.name +
                            " is gone: its launcher has been killed, or its host does not answer",
                .failed_at_ns = wall_clock_ns()};
    end_all_ranks(&link);
  }

  // Once; what fails later is mostly a consequence.
  void end_all_ranks(const Link* from) {
    if (std::exchange(are_ending_, true)) return;
    if (!end_) send_message(socket_, {kPeerFailed, ""});
    tell(NodeWord::failed, "", from);
  }

  void pass_on(const std::string& signal, const Link* from) {
    if (!end_) send_message(socket_, {kPassedSignal, signal});
    tell(NodeWord::signalled, signal, from);
  }

  // All others but the one that this came from. Node 0 knows all, the others know node 0.
  void tell(NodeWord word, const std::string& text, const Link* from) {
    for (const auto& link : links_)
      if (&link != from && !link.is_gone) say(link, word, text);
  }

  void decide() {
    if (!end_ || outcome_) return;
    std::vector<ProgramEnd> ends{*end_};
    for (const auto& link : links_) {
      if (own_.node != 0 && !link.is_gone) return;
      if (own_.node == 0 && !link.end) return;
      if (link.end) ends.push_back(*link.end);
    }
    outcome_ = first_of(ends);
    if (own_.node == 0) tell(NodeWord::outcome, to_wire(*outcome_), nullptr);
  }

  const int socket_;
  const Descriptor& signals_;
  const RanksOfNode& own_;
  std::vector<Link> links_;
  bool are_ending_ = false;
  std::optional<ProgramEnd> end_, outcome_;
};

}  // namespace

ProgramEnd watch_nodes(const Zygote& server, const Descriptor& signals, const Nodes& nodes) {
  return Watch(server, signals, nodes).outcome();
}

}  // namespace lockstep::cli
