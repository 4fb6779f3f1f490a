// Where a case runs. A tier creates a world of ranks, lets every rank run the scenario's program on
// the case, and returns what they recorded. Code asks for a tier's traits; its name is for the code
// that makes it, and for people.
#pragma once

#include "harness/base/tier_errors.h"
#include "harness/cases/scenario.h"

#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <span>

namespace lockstep {

struct TierTraits {
  const char* name;  // in options, files and reports
  // The ranks of a world are processes, alive at once; otherwise they take turns in one process,
  // and a case costs a tenth.
  bool ranks_are_processes = true;
  // The case decides which rank runs when, and so its history: the same one every time.
  bool is_deterministic = false;
  // The first run of a case records call sites too.
  bool has_call_sites = true;
  // Its ranks are in processes that a launcher starts, this one among them.
  bool is_launched = false;
  // The backend of its collectives, whatever the setting wants; "": the setting's backend.
  const char* own_backend = "";
};

// Where ranks are threads of one process and time is virtual; are processes that are kept for the
// next case; are forked for one case; are in processes that a launcher has started.
inline constexpr TierTraits kSim{.name = "sim",
                                 .ranks_are_processes = false,
                                 .is_deterministic = true,
                                 .has_call_sites = false,
                                 .own_backend = "memory"};
inline constexpr TierTraits kWarm{.name = "warm"};
inline constexpr TierTraits kCold{.name = "cold"};
inline constexpr TierTraits kLaunched{.name = "launched", .is_launched = true};

// The tier of a program's own run, which its recorder wrote down: no tier made its world.
inline constexpr const char* kRecorded = "recorded";

// All tiers, the cheapest first: help lists them in this order, and shrinking tries them in it.
std::span<const TierTraits> known_tiers();
std::vector<std::string> names_of_tiers();

// Null for a name that none has, as a file of a later version may hold.
const TierTraits* find_tier(std::string_view name);

// Never part of a case: the same case runs in every setting.
struct Setting {
  std::string subject = "lockstep", tier = "cold", backend = "gloo";
  bool operator==(const Setting&) const = default;
};

// Throws TierError for a tier that does not exist.
const TierTraits& traits_of(const Setting& setting);

// The limit and the recording of one run of a case; never part of the case either.
struct CaseRunOptions {
  std::chrono::milliseconds time_limit{};  // for one case, from the moment its world starts
  // Tiers without call sites at a case's first run record them, too: it takes a tenth of the time
  // of a simulated world. The others always do.
  bool call_sites = false;
};

// The parts of a case's stacks that a report shows.
struct CaseStacks {
  // The relevant frames of a rank's own thread, or the kernel's state of it; by rank, of those that
  // were late or crashed.
  std::map<int, std::vector<std::string>> by_rank;
  // Where the ranks diverge, a line for each: what it issued, and in which of its own lines.
  std::vector<std::string> call_sites;
};

// Runs one case at a time, for the lane that owns it. Tiers are made before the first thread of the
// program, and from then on each is used by one thread.
class Tier {
 public:
  virtual ~Tier() = default;

  // Blocks until every rank is gone, however it ended. Throws TierError or its subclass TierLost;
  // Interrupted after stop().
  virtual History run(const Scenario& scenario, const Case& c, const Setting& setting,
                      const CaseRunOptions& options) = 0;

  // Writes the output of the ranks of the last case: two files for each rank, rank0.out, rank0.err,
  // ... in `folder`, which is made. Empty files are left out. For a rank that was late also
  // rank0.stacks: the stacks of its threads at the deadline, the main one first. Where ranks
  // diverge in `history`, which the case gave, also call_sites.txt: the call site of what each
  // issued there, a line for each rank followed by its stack, indented.
  virtual CaseStacks keep_output(const std::filesystem::path& folder, const History& history) = 0;

  // Ends the running case, from any thread; its world is killed as a group.
  virtual void stop() = 0;
};

}  // namespace lockstep
