// The warm tier: the ranks of a world are processes that are kept, with their group, for the next
// case of the same size and backend. Before each case generator, grad mode and default dtype are
// restored. A rank that died, hung or threw, or left something behind, is the case's own verdict,
// and its world is discarded.
#pragma once

#include "harness/worlds/forked/server.h"

#include <map>
#include <utility>

namespace lockstep {

class WarmServer final : public TierServer {
 public:
  WarmServer(Workplace& workplace, KeptWorlds& kept) : workplace_(workplace), kept_(kept) {}
  CaseReply run(const CaseRequest& request, const std::string& text, int stop_descriptor) override;

 private:
  KeptWorld& world_for(const CaseRequest& request, int stop_descriptor);
  std::weak_ptr<KeptWorld> make(const CaseRequest& request, int stop_descriptor);
  void make_room(int size);

  Workplace& workplace_;
  KeptWorlds& kept_;
  std::map<std::pair<int, std::string>, std::weak_ptr<KeptWorld>> worlds_;  // by size and backend
};

}  // namespace lockstep
