// Runs the candidates of a search on all lanes that have nothing else to do, this one among them.
#pragma once

#include "harness/campaign/agenda.h"

namespace lockstep {

class LaneTrials : public TrialRunner {
 public:
  // All of them outlive it.
  LaneTrials(Tier& tier, Agenda& agenda, CaseRunner& runner, const Job& job, size_t culprit)
      : tier_(tier), agenda_(agenda), runner_(runner), job_(job), culprit_(culprit) {}

  std::vector<std::optional<Outcome>> run(const Goal& goal, const Setting& setting,
                                          const std::vector<Case>& cases, Outcome wanted,
                                          TrialTime until) override;
  std::optional<Story> tell(const Case& c, const Setting& setting) override;
  std::optional<Verdict> shown(const Case& c, const Setting& setting) const override;
  // One search keeps one file: the smallest case so far. One that cannot be written replaces none.
  void keep(const Case& c, const Origin& origin) override;
  bool interrupted() const override { return runner_.end().reached(); }
  TrialTime now() const override { return runner_.options().now(); }

  // The smallest so far of an earlier run.
  void began_with(const std::filesystem::path& file) { kept_ = file; }

 private:
  int number() const { return static_cast<int>(culprit_) + 1; }
  int of() const { return static_cast<int>(job_.cases.size()); }
  void run(TrialBatch& batch, size_t index);

  Tier& tier_;
  Agenda& agenda_;
  CaseRunner& runner_;
  const Job& job_;
  const size_t culprit_;
  std::map<std::string, Verdict> shown_;  // by tier and hash
  std::filesystem::path kept_;
};

}  // namespace lockstep
