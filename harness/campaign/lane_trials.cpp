#include "harness/campaign/lane_trials.h"

#include "harness/cases/shown_fields.h"

namespace lockstep {

namespace {

// While it lives, lanes find the batch; they may still run a case of it afterwards.
class Offered {
 public:
  Offered(Agenda& agenda, std::shared_ptr<TrialBatch> batch) : agenda_(agenda) {
    agenda_.offer(std::move(batch));
  }
  ~Offered() { agenda_.offer(nullptr); }
  Offered(const Offered&) = delete;
  Offered& operator=(const Offered&) = delete;

 private:
  Agenda& agenda_;
};

}  // namespace

std::vector<std::optional<Outcome>> LaneTrials::run(const Goal& goal, const Setting& setting,
                                                    const std::vector<Case>& cases, Outcome wanted,
                                                    TrialTime until) {
  const auto batch = std::make_shared<TrialBatch>(TrialList(cases, wanted), goal, setting, number(),
                                                  of(), job_.scenario);
  const Offered offered(agenda_, batch);
  do {
    if (interrupted() || now() >= until) batch->close();
    while (const auto index = batch->next()) {
      run(*batch, *index);
      if (interrupted() || now() >= until) batch->close();
    }
  } while (batch->wait());
  for (const auto& [hash, verdict] : batch->shown()) shown_[setting.tier + hash] = verdict;
  return batch->outcomes();
}

// An exception ends the campaign, and interrupted() the search.
void LaneTrials::run(TrialBatch& batch, size_t index) {
  try {
    batch.run(index, tier_, runner_);
  } catch (const Interrupted&) {
  } catch (...) {
    runner_.end().fail(std::current_exception());
  }
}

std::optional<TrialRunner::Story> LaneTrials::tell(const Case& c, const Setting& setting) {
  if (interrupted()) return {};
  try {
    const TakenSlots slots(runner_.slots(), ranks_alive(setting, world_size(c)));
    const Turn turn{.c = c, .setting = setting, .number = number(), .of = of(), .is_trial = true};
    const auto run = runner_.run(tier_, job_.scenario, turn, Audience::all,
                                 {.time_limit = runner_.options().time_limit, .call_sites = true});
    auto evidence = keep_evidence(tier_, runner_.archive().logs_for(c, setting), run.history);
    runner_.keep_history(turn, run);
    return Story{run.verdict, std::move(evidence)};
  } catch (const Interrupted&) {
    return {};
  }
}

std::optional<Verdict> LaneTrials::shown(const Case& c, const Setting& setting) const {
  const auto found = shown_.find(setting.tier + hash_of(c));
  return found == shown_.end() ? std::nullopt : std::optional(found->second);
}

void LaneTrials::keep(const Case& c, const Origin& origin) {
  const auto file = runner_.save_failure(c, case_file(job_.scenario, {c, origin}));
  if (file.empty()) return;
  std::error_code none;
  if (!kept_.empty() && kept_ != file) std::filesystem::remove(kept_, none);
  kept_ = file;
}

}  // namespace lockstep
