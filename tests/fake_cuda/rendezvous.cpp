#include "tests/fake_cuda/rendezvous.h"

#include "tests/fake_cuda/sockets.h"

#include <cstdio>
#include <cstring>
#include <thread>
#include <unistd.h>

namespace lockstep::fake_cuda {

namespace {

struct Card {
  std::int32_t rank = 0;
  std::int32_t size = 0;
  std::uint16_t port = 0;
  char gpu[128] = {};
};

constexpr const char* kGone = "a peer closed its connection while ranks were connecting";

void serve(int listener) {
  const std::atomic<bool> never{false};
  std::vector<Card> cards(1);
  std::vector<int> members(1, -1);
  for (std::size_t come = 0; come < cards.size();) {
    const int member = accept_one(listener, never);
    Card card;
    if (member < 0 || !receive_whole(member, &card, sizeof card, never)) continue;
    cards.resize(static_cast<std::size_t>(card.size));
    members.resize(cards.size(), -1);
    const auto rank = static_cast<std::size_t>(card.rank);
    if (members[rank] < 0) ++come;
    members[rank] = member;
    cards[rank] = card;
  }
  for (const int member : members) {
    send_whole(member, cards.data(), cards.size() * sizeof(Card));
    ::close(member);
  }
  ::close(listener);
}

std::string duplicate_in(const std::vector<Card>& cards) {
  for (const Card& one : cards) {
    for (const Card& other : cards) {
      if (one.rank < other.rank && std::strcmp(one.gpu, other.gpu) == 0)
        return "Duplicate GPU detected : rank " + std::to_string(one.rank) + " and rank " +
               std::to_string(other.rank) + " both on " + one.gpu;
    }
  }
  return "";
}

// Lower ranks are connected to, higher ones come.
bool connect_all(const std::vector<Card>& cards, int rank, int listener,
                 const std::atomic<bool>& stop, std::vector<int>& sockets) {
  sockets.assign(cards.size(), -1);
  const auto mine = static_cast<std::size_t>(rank);
  for (std::size_t peer = 0; peer < mine; ++peer) {
    sockets[peer] = connect_to_loopback(cards[peer].port);
    if (sockets[peer] < 0 || !send_whole(sockets[peer], &rank, sizeof rank)) return false;
  }
  for (std::size_t come = mine + 1; come < cards.size(); ++come) {
    const int socket = accept_one(listener, stop);
    int peer = 0;
    if (socket < 0 || !receive_whole(socket, &peer, sizeof peer, stop)) return false;
    sockets[static_cast<std::size_t>(peer)] = socket;
  }
  return true;
}

}  // namespace

std::uint16_t open_rendezvous() {
  const Listener listener = listen_on_loopback();
  std::thread(serve, listener.socket).detach();
  return listener.port;
}

Connected rendezvous(std::uint16_t port, const Member& member, const std::atomic<bool>& stop) {
  const Listener listener = listen_on_loopback();
  Card card{member.rank, member.size, listener.port, {}};
  std::snprintf(card.gpu, sizeof card.gpu, "%s", member.gpu.c_str());
  Connected met;
  std::vector<Card> cards(static_cast<std::size_t>(member.size));
  const int desk = connect_to_loopback(port);
  if (desk < 0 || !send_whole(desk, &card, sizeof card) ||
      !receive_whole(desk, cards.data(), cards.size() * sizeof(Card), stop)) {
    met.problem = kGone;
  } else if (met.problem = duplicate_in(cards); !met.problem.empty()) {
    met.is_misuse = true;
  } else if (!connect_all(cards, member.rank, listener.socket, stop, met.sockets)) {
    met.problem = kGone;
  }
  if (desk >= 0) ::close(desk);
  ::close(listener.socket);
  return met;
}

}  // namespace lockstep::fake_cuda
