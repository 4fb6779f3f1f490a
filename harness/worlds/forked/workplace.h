// The parts of a server process share this: what ranks may run, where they write, and how late or
// crashed ranks are examined.
#pragma once

#include "harness/cases/scenario.h"
#include "harness/process/affinity.h"
#include "harness/process/child_group.h"
#include "harness/worlds/forked/capture.h"
#include "harness/worlds/forked/conversation.h"
#include "harness/worlds/forked/memory.h"
#include "harness/worlds/scratch.h"
#include "harness/worlds/tiers.h"

#include <memory>
#include <optional>

namespace lockstep {

class Workplace {
 public:
  Workplace(const std::vector<Scenario>& scenarios, const Subjects& subjects,
            const ForkedOptions& options, std::shared_ptr<LaneMemory> memory);

  // First thing in the server process. Throws TierError where ranks cannot be forked from it.
  void prepare();
  // Last.
  void remove_scratch() const;

  const SingleThreaded& alone() const { return alone_.value(); }
  const Scenario& scenario(const std::string& name) const;  // throws TierError
  const Subject& subject(const std::string& name) const { return subjects_.at(name); }
  // Finds what the request names. Throws TierError.
  CaseAssignment assignment_of(const CaseRequest& request) const;
  // Null where tensors are on the CPU.
  const DeviceBackend* device_backend(const std::string& name) const;
  const ForkedOptions& options() const { return options_; }
  const LaneMemory& memory() const { return *memory_; }
  const std::filesystem::path& scratch() const { return scratch_.value().path(); }

  // Watches processes of a case until the deadline; a late one's stack goes into `stacks`, by its
  // number in the group.
  GroupWatch watch(std::chrono::steady_clock::time_point deadline, int stop_descriptor,
                   StacksByRank& stacks) const;
  // Those of processes that have ended with a crash, likewise.
  void add_stacks_of_crashes(const std::vector<ChildEnd>& ends, StacksByRank& stacks) const;

  std::shared_ptr<Capture> capture = std::make_shared<Capture>();  // of the last case
  Affinity affinity;                                               // of this process

 private:
  const std::vector<Scenario> scenarios_;
  const Subjects subjects_;
  const ForkedOptions options_;
  const std::shared_ptr<LaneMemory> memory_;
  std::optional<SingleThreaded> alone_;   // once prepared
  std::optional<ScratchFolder> scratch_;  // likewise
};

}  // namespace lockstep
