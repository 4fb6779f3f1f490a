// Tensors that are divided over the ranks on purpose, by FSDP or tensor parallelism say: each rank
// says which part it holds, and only equal parts are compared.
#pragma once

#include "harness/recorded/recorded_run.h"

#include <map>

namespace lockstep::recorded {

// The part of a whole tensor that a rank holds: a box at an offset, or a range of its elements in
// row-major order.
struct Shard {
  std::vector<int64_t> whole, offset;
  bool is_flat = false;
  auto operator<=>(const Shard&) const = default;
};
using Shards = std::map<std::string, Shard>;  // by name of the tensor

// The parts that a rank holds of the tensors of each model, by facts "shards"; throws nothing: what
// is no part of a tensor is left out.
std::map<std::string, Shards> shards_of(const Rank& rank);

// The parts of a list's tensors that a rank holds, of all that it recorded parts of: by the list's
// name, or by the owner's in that of an optimizer's state. A tensor that holds several parameters
// is the rank's own, as one of no model.
std::shared_ptr<const Shards> shards_for(const std::map<std::string, Shards>& all,
                                         const TensorList& list, size_t rank);

// True if ranks hold parts of one layer, so that they share their batches: tensor parallelism.
bool shares_batches(const RecordedRun& run);

// The tensors of `like`, put together from the parts of all ranks' digests with their elements; of
// a tensor that no rank divides, the first rank's. Nothing where a part is missing or unlike.
std::optional<Digests> whole_of(const std::vector<const Digests*>& by_rank,
                                const std::vector<Shards>& shards, const TensorList& like);

// The number of elements of a tensor of this shape; -1 where no tensor has so many.
int64_t count_of(const std::vector<int64_t>& shape);

// The number of elements that these parts hold together, where each counts once.
int64_t elements_of(const std::map<Shard, std::vector<int64_t>>& extents);

}  // namespace lockstep::recorded
