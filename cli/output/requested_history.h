// The history of one case of a run, for the files that a user requested of it.
#pragma once

#include "harness/archive/kept_histories.h"
#include "harness/cases/listener.h"

#include <optional>

namespace lockstep::cli {

struct HistoryFiles {
  std::string trace;   // the file of a Chrome trace; empty: not written
  std::string folder;  // of a history for each rank; empty: not written
  bool empty() const { return trace.empty() && folder.empty(); }
};

// Passes everything on to `next`, and keeps the history of the first case that does not hold, or
// else of the last one.
class RequestedHistory : public Listener {
 public:
  explicit RequestedHistory(Listener& next) : next_(next) {}
  void on_case(const Turn& turn) override { next_.on_case(turn); }
  void on_verdict(const Turn& turn, const History& history, const Verdict& verdict) override;
  void on_output(const Turn& turn, const std::filesystem::path& folder) override {
    next_.on_output(turn, folder);
  }
  void on_result(const Result& result) override { next_.on_result(result); }
  void on_wait() override { next_.on_wait(); }

  // Writes the files; returns the table of the trace, and which case it is of. Throws UsageError
  // for a file that cannot be written or is there already, and where no case ran.
  std::string write(const HistoryFiles& files) const;

 private:
  Listener& next_;
  std::optional<KeptHistory> kept_;
  int of_ = 1;  // cases of its scenario
};

// Throws UsageError where the folder of histories has some already.
void check_history_files(const HistoryFiles& files);

}  // namespace lockstep::cli
