// One campaign over fake tiers, in a folder of its own.
#pragma once

#include "tests/campaign/toys.h"

namespace lockstep::toys {

struct Bench {
  Folder folder;
  Archive archive{folder.path()};
  Counter heard;
  std::atomic<bool> interrupted = false;

  Run run(std::vector<Job> jobs, FakeTier::HistoryOf history_of, CampaignOptions options = {},
          int lanes = 1, std::vector<Canary> canaries = {}) {
    Run out;
    auto tiers = toys::lanes(lanes, history_of);
    Campaign(std::move(jobs), std::move(canaries), options, tiers, archive, heard)
        .run(interrupted, out);
    return out;
  }
};

// A run whose ranks record the value of their case.
inline History sees_its_value(const Case& c, FakeTier&) {
  return recorded(c, value_of(c));
}

}  // namespace lockstep::toys
