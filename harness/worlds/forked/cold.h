// The cold tier: the ranks of a world are processes, forked for one case.
#pragma once

#include "harness/worlds/forked/server.h"

namespace lockstep {

class ColdServer final : public TierServer {
 public:
  ColdServer(Workplace& workplace, KeptWorlds& kept) : workplace_(workplace), kept_(kept) {}
  CaseReply run(const CaseRequest& request, const std::string& text, int stop_descriptor) override;

 private:
  Workplace& workplace_;
  KeptWorlds& kept_;
};

}  // namespace lockstep
