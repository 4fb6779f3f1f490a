// A scenario without ranks and a tier without processes: what a case's `value` is decides what the
// tier does, so that a test can say in one number how a case ends.
#pragma once

#include "harness/campaign/campaign.h"

#include <functional>

namespace lockstep::toys {

struct Number {
  WorldSpec world{.size = 2};
  int64_t value = 0;
  static constexpr auto fields() {
    return std::tuple{field("world", &Number::world),
                      field("value", &Number::value, between(0, 1000))};
  }
};

// Its check holds unless the ranks recorded a 1. Draws values in [0, 1000].
Scenario holds_unless_one(std::string name = "toys.numbers");

std::vector<Case> cases_of(const Scenario& scenario, const std::vector<int64_t>& values);
Job job_of(const Scenario& scenario, const std::vector<int64_t>& values);

// All at once.
std::vector<Case> all_of(const CaseList& cases);

// The history of W ranks that all recorded `seen` and returned.
History recorded(const Case& c, int64_t seen);
History ended(const Case& c, Ending ending);

int64_t value_of(const Case& c);

// Runs what `run` says; an empty function records 0 on every rank.
class FakeTier : public Tier {
 public:
  using HistoryOf = std::function<History(const Case&, FakeTier&)>;
  explicit FakeTier(HistoryOf run = {}) : run_(std::move(run)) {}

  History run(const Scenario& scenario, const Case& c, const Setting& setting,
              const CaseRunOptions& options) override;
  CaseStacks keep_output(const std::filesystem::path& folder, const History& history) override;
  void stop() override;

  // Blocks until stop(), as a rank that hangs would; then throws Interrupted.
  void block();

 private:
  HistoryOf run_;
  std::atomic<bool> stopped_ = false;
};

std::vector<std::unique_ptr<Tier>> lanes(int count, const FakeTier::HistoryOf& run);

// A folder of its own, gone with it.
class Folder {
 public:
  Folder();
  ~Folder();
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// Counts what it receives.
class Counter : public Listener {
 public:
  void on_case(const Turn& turn) override { cases.push_back(turn.c); }
  void on_verdict(const Turn&, const History&, const Verdict& verdict) override {
    verdicts.push_back(verdict.kind);
  }
  void on_result(const Result& result) override { results.push_back(result.scenario); }

  std::vector<Case> cases;
  std::vector<Verdict::Kind> verdicts;
  std::vector<std::string> results;
};

std::vector<Json> events_of(const std::filesystem::path& run_folder);

}  // namespace lockstep::toys
