#include "ddp/reducer/sparse_sum.h"

#include "ddp/errors.h"

#include <torch/torch.h>

#include <algorithm>
#include <string>
#include <utility>

namespace lockstep {

namespace {

// Gathers every rank's tensor, of equal size and any dtype.
std::vector<at::Tensor> gather_bytes(Communicator& communicator, const at::Tensor& mine,
                                     const std::string& description) {
  auto parts = communicator.gather(mine.contiguous().flatten().view(at::kByte), description);
  for (at::Tensor& part : parts) part = part.clone().view(mine.scalar_type());
  return parts;
}

}  // namespace

void SparseSum::pack(const at::Tensor& gradient, int world_size) {
  const at::NoGradGuard no_grad;
  gradient_ = gradient.defined() ? gradient.detach().coalesce().div(world_size) : at::Tensor();
}

void SparseSum::start(Communicator& communicator, std::size_t bucket_index) {
  at::Tensor sizes = at::zeros({4}, at::kLong);
  auto* const words = sizes.data_ptr<std::int64_t>();
  words[0] = gradient_.defined() ? gradient_._nnz() : 0;
  words[1] = gradient_.defined() ? gradient_.sparse_dim() : 0;
  words[2] = flag_.is_raised ? 1 : 0;
  words[3] = flag_.number;
  sizes_ = communicator.start_gather(
      sizes, "exchange of sizes of sparse gradient bucket " + std::to_string(bucket_index));
}

void SparseSum::wait_for_sizes(Communicator& communicator) {
  shares_.clear();
  flag_is_well_ = true;
  std::int64_t first_number = 0;
  for (const at::Tensor& each : communicator.finish_gather(sizes_)) {
    const auto* const words = each.const_data_ptr<std::int64_t>();
    shares_.push_back({words[0], words[1]});
    if (shares_.size() == 1) first_number = words[3];
    flag_is_well_ = flag_is_well_ && words[2] == 0 && words[3] == first_number;
  }
}

SparseSum::Share SparseSum::largest_share() const {
  Share largest;
  for (const Share& share : shares_) {
    largest.entry_count = std::max(largest.entry_count, share.entry_count);
    largest.sparse_dim = std::max(largest.sparse_dim, share.sparse_dim);
  }
  for (std::size_t rank = 0; rank < shares_.size(); ++rank) {
    const std::int64_t own = shares_[rank].sparse_dim;
    if (own == 0 || own == largest.sparse_dim) continue;
    throw DisagreementError("gradients of one parameter have " + std::to_string(own) +
                            " sparse dimensions on rank " + std::to_string(rank) + " and " +
                            std::to_string(largest.sparse_dim) + " on another");
  }
  return largest;
}

// Concatenates every rank's own entries along `axis`.
at::Tensor SparseSum::without_padding(const std::vector<at::Tensor>& parts,
                                      const std::vector<Share>& shares, at::IntArrayRef sizes,
                                      std::int64_t axis) {
  std::vector<at::Tensor> kept;
  for (std::size_t rank = 0; rank < parts.size(); ++rank) {
    kept.push_back(parts[rank].view(sizes).narrow(axis, 0, shares[rank].entry_count));
  }
  return at::cat(kept, axis);
}

std::optional<SparseSum::Entries> SparseSum::gathered(Communicator& communicator) const {
  const at::NoGradGuard no_grad;
  const Share largest = largest_share();
  if (largest.sparse_dim == 0) return {};
  const at::IntArrayRef shape = parameter_.sizes();
  // At least one entry, since backends refuse empty tensors.
  const std::vector<std::int64_t> index_sizes = {largest.sparse_dim,
                                                 std::max(largest.entry_count, std::int64_t{1})};
  std::vector<std::int64_t> value_sizes =
      shape.slice(static_cast<std::size_t>(largest.sparse_dim)).vec();
  value_sizes.insert(value_sizes.begin(), index_sizes.back());
  at::Tensor indices = at::zeros(index_sizes, parameter_.options().dtype(at::kLong));
  at::Tensor values = at::zeros(value_sizes, parameter_.options());
  if (gradient_.defined()) {
    indices.narrow(1, 0, gradient_._nnz()).copy_(gradient_.indices());
    values.narrow(0, 0, gradient_._nnz()).copy_(gradient_.values());
  }
  auto all_indices = gather_bytes(communicator, indices, "exchange of sparse indices");
  auto all_values = values.numel() > 0
                        ? gather_bytes(communicator, values, "exchange of sparse values")
                        : std::vector<at::Tensor>(shares_.size(), values);
  return Entries{std::move(all_indices), std::move(all_values), index_sizes, value_sizes};
}

at::Tensor SparseSum::finish(Communicator& communicator) {
  const at::NoGradGuard no_grad;
  const auto all = gathered(communicator);
  if (!all) return {};
  return at::sparse_coo_tensor(without_padding(all->indices, shares_, all->index_sizes, 1),
                               without_padding(all->values, shares_, all->value_sizes, 0),
                               parameter_.sizes(), parameter_.options().layout(at::kSparse))
      .coalesce();
}

void SparseSum::take_part(Communicator& communicator) {
  gathered(communicator);
}

}  // namespace lockstep
