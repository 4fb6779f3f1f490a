#pragma once

#include "harness/rank/call_sites.h"
#include "harness/rank/injector.h"
#include "recorder/cpp/history_file.h"

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <functional>
#include <mutex>
#include <set>

namespace lockstep {

// Where one process records, and what its tapped groups need: they may outlive the Recorder.
struct RankRecording {
  // Writes the begin and the group. The rank and the world are the launcher's; without one, the
  // group's. `perturbed`: as in ComparisonOptions. Throws as HistoryFile.
  RankRecording(const std::filesystem::path& folder, const c10d::ProcessGroup& group,
                int perturbed);

  void fact(const std::string& name, const Json& values);
  void span(const std::string& name, int64_t from_ns);  // until now
  // Writes the moment where it is another than the last.
  void at(const std::string& phase);
  // Calls `record`. Its exception is no concern of the program's: it becomes a fact, once for each
  // `what`.
  void guarded(const std::string& what, const std::function<void()>& record) noexcept;

  HistoryFile file;
  Injector injector;  // strikes nothing
  CallSites sites;    // addresses mean nothing in a file
  Moment moment;      // `step` is the number of updates so far
  std::string phase;  // that was written last for this step; empty: none

 private:
  void leave_out(const std::string& what, const std::string& because) noexcept;

  std::mutex mutex_;
  std::set<std::string> left_out_;
};

}  // namespace lockstep
