// All that a program sees of its world: its rank, its peers, the subject under test, and the
// journal it records in. One class; every tier fills it.
//
// A program belongs to one thread. Its records survive the death of its process: each record is in
// memory shared with the runner when record() returns.
#pragma once

#include "harness/history/history.h"

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <torch/torch.h>

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string_view>
#include <vector>

namespace lockstep {

struct Subject;
class Injector;
class JournalWriter;

// The parts that a tier gives a rank. Referred-to values outlive the RankContext.
struct RankParts {
  int rank = 0;
  int size = 1;
  const Subject& subject;
  c10::Device device = c10::kCPU;
  JournalWriter& journal;
  Injector& injector;
  c10::intrusive_ptr<c10d::Store> store;
  // Collective over `ranks`, which are ascending and hold this rank. Once for each list.
  std::function<c10::intrusive_ptr<c10d::ProcessGroup>(const std::vector<int>& ranks)> make_group;
  std::function<std::filesystem::path()> make_scratch;
  std::function<int64_t()> clock_ns;  // the clock of the times in the trace
};

class RankContext {
 public:
  explicit RankContext(RankParts parts) : parts_(std::move(parts)) {}
  RankContext(const RankContext&) = delete;
  RankContext& operator=(const RankContext&) = delete;

  int rank() const { return parts_.rank; }
  int size() const { return parts_.size; }
  const Subject& subject() const { return parts_.subject; }

  // The device of models, where wrap() and sync_batch_norm() put them; a program's other tensors
  // may stay on the CPU. The group has a backend for the tensors of both.
  c10::Device device() const { return parts_.device; }

  // The group of all ranks; each of its collectives is recorded. Collective at the first call,
  // where the ranks rendezvous; local from then on.
  c10::intrusive_ptr<c10d::ProcessGroup> group();

  // A group of some ranks of the world, ascending and including this one; its ranks are numbered
  // from 0 in this order. Throws std::invalid_argument for another list. Recorded as "ranks 2,3".
  // Collective over `ranks` at the first call for them; local from then on.
  c10::intrusive_ptr<c10d::ProcessGroup> group_of(const std::vector<int>& ranks);

  // Shared by the ranks of this world and empty at its start. Its waits outlast the case's
  // deadline, which therefore decides: a rank that waits in vain is stuck.
  c10::intrusive_ptr<c10d::Store> store() const { return parts_.store; }

  // A folder for all ranks of this world, empty at its start and removed after it; in a launched
  // world, which may be on several hosts, one for each rank.
  std::filesystem::path scratch();

  // The time in nanoseconds on the clock that the trace's collectives are timed with: virtual in a
  // simulated world, where a case repeats it, and the machine's elsewhere, where a history that
  // records it is never repeated. Local.
  int64_t now_ns() const { return parts_.clock_ns(); }

  // The program enters this moment: what follows is recorded under it. Injections planted at the
  // moment strike now, after it was recorded.
  void enter(int step, std::string_view phase);

  // The value as it is now, copied; of any device and layout that can be made contiguous. Throws
  // std::invalid_argument for an undefined tensor, JournalFull when out of room.
  void record(std::string_view name, const at::Tensor& value);
  void record(std::string_view name, const std::vector<int64_t>& values);

  // The gradients that the subject reduces together from here on.
  void record(const BucketLayout& layout);

 private:
  RankParts parts_;
  std::map<std::vector<int>, c10::intrusive_ptr<c10d::ProcessGroup>> groups_;  // by their ranks
  std::filesystem::path scratch_;
};

}  // namespace lockstep
