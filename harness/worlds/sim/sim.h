// The sim tier: the ranks of a world are threads of one process, the host, of which one runs at a
// time, in an order and at times that the case decides; its collectives are carried in memory
// (docs/simulation.md). The host is kept for the next case.
#pragma once

#include "harness/worlds/forked/forked_tier.h"
#include "harness/worlds/forked/server.h"

namespace lockstep {

class SimTier final : public ForkedTier {
 public:
  explicit SimTier(std::shared_ptr<Lane> lane) : ForkedTier(kSim, std::move(lane)) {}
  History run(const Scenario& scenario, const Case& c, const Setting& setting,
              const CaseRunOptions& options) override;

 private:
  // Runs every schedule, until one fails: its history, else the last one.
  History run_exhaustively(const Scenario& scenario, Case c, CaseRequest request);
};

class SimServer final : public TierServer {
 public:
  SimServer(Workplace& workplace, KeptWorlds& kept) : workplace_(workplace), kept_(kept) {}
  CaseReply run(const CaseRequest& request, const std::string& text, int stop_descriptor) override;

 private:
  CaseReply run_in_host(const CaseRequest& request, const std::string& text, int stop_descriptor);
  KeptWorld& host_for(int size, int stop_descriptor);
  std::weak_ptr<KeptWorld> make(int ranks_most, int stop_descriptor);

  Workplace& workplace_;
  KeptWorlds& kept_;
  std::weak_ptr<KeptWorld> host_;
  int host_ranks_most_ = 0;
};

}  // namespace lockstep
