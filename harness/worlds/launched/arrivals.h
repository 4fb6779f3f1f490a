// The processes that have come to the rendezvous of a campaign. Pure functions; no torch.
#pragma once

#include "harness/worlds/wire.h"

#include <string>
#include <vector>

namespace lockstep {

struct Arrival {
  int rank = 0;
  int size = 1;  // of the world, as its launcher says
  std::string version;
  std::string reply;  // the key of the store at which it expects rank 0's text
  bool has_secret = false;
  static constexpr auto fields() {
    constexpr int kRanksMost = 65536;
    return std::tuple{field("rank", &Arrival::rank, between(0, kRanksMost - 1)),
                      field("size", &Arrival::size, between(1, kRanksMost)),
                      field("version", &Arrival::version, line_up_to(256)),
                      field("reply", &Arrival::reply, line_up_to(256)),
                      field("has_secret", &Arrival::has_secret)};
  }
};

std::string text_of(const Arrival& arrival);
// Throws TierError, which names the field, for text that is no arrival.
Arrival arrival_in(const std::string& text);

// Why these cannot be processes of one campaign, as one sentence for all of them; empty where they
// can. The order of arrival does not matter.
std::string problem_with(std::vector<Arrival> arrivals);

// "these ranks did not come: 1 (these did: 0, 2-4)"; empty where all of a world of `size` have.
std::string absence_among(const std::vector<Arrival>& arrivals, int size);

}  // namespace lockstep
