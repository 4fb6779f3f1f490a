#pragma once

#include "ddp/comm/communicator.h"
#include "ddp/reducer/flag.h"

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

namespace lockstep {

// Sums one sparse gradient over the group, in place of a bucket: ranks exchange how many entries
// they have, then the entries, padded to the longest, and every rank adds all of them in rank
// order. Works on any backend that has all-gather. Source: docs/semantics.md 2.3.
class SparseSum {
 public:
  // For a parameter of `embedding` and the like, whose gradients are of its dtype in COO layout
  // with any number of sparse dimensions.
  explicit SparseSum(const at::Tensor& parameter) : parameter_(parameter) {}

  // Packs the gradient divided by `world_size`; an undefined one has no entries. Local.
  void pack(const at::Tensor& gradient, int world_size);

  // Starts to exchange sizes. Collective; does not block; throws CommunicationError.
  void start(Communicator& communicator, std::size_t bucket_index);

  // Blocks until the sizes have arrived; throws CommunicationError.
  void wait_for_sizes(Communicator& communicator);

  // Called next. Returns the average, coalesced, in the parameter's shape; undefined if the
  // gradient was undefined on all ranks. Collective; blocks; throws CommunicationError, and
  // DisagreementError on all ranks if gradients have different numbers of sparse dimensions.
  at::Tensor finish(Communicator& communicator);

  // In its place, on a rank that makes nothing of the average: sends what peers wait for. The host
  // does not wait for a device. Collective; throws as finish().
  void take_part(Communicator& communicator);

  // The flag of Note [The flag in the last bucket] travels with the sizes.
  void write_flag(const PassFlag& flag) { flag_ = flag; }
  bool flag_is_well() const { return flag_is_well_; }

 private:
  // One rank's entries.
  struct Share {
    std::int64_t entry_count = 0;
    std::int64_t sparse_dim = 0;  // 0: the gradient is undefined
  };
  // The entries of each rank, in rank order, padded to these sizes; nothing where no rank has any.
  struct Entries {
    std::vector<at::Tensor> indices, values;
    std::vector<std::int64_t> index_sizes, value_sizes;
  };
  std::optional<Entries> gathered(Communicator& communicator) const;
  Share largest_share() const;
  static at::Tensor without_padding(const std::vector<at::Tensor>& parts,
                                    const std::vector<Share>& shares, at::IntArrayRef sizes,
                                    std::int64_t axis);

  at::Tensor parameter_;
  at::Tensor gradient_;  // coalesced and divided, or undefined
  PassFlag flag_;
  bool flag_is_well_ = true;
  Operation sizes_;
  std::vector<Share> shares_;  // by rank
};

}  // namespace lockstep
