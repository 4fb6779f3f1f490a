#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/data/samplers/base.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace lockstep {

class RankOrder;

struct DistributedSamplerOptions {
  // Number of ranks, at least 1, and this one's position in [0, num_replicas). There is no default:
  // a forgotten pair would quietly give every rank all of the data.
  std::optional<std::int64_t> num_replicas;
  std::optional<std::int64_t> rank;

  // Draw a new order each epoch; otherwise 0, 1, 2, ...
  bool shuffle = true;

  // Equal on all ranks. The order depends on seed + epoch, so (0, 1) and (1, 0) give the same one.
  std::uint64_t seed = 0;

  // If the dataset size is not a multiple of num_replicas: drop the tail of the order (true), or
  // pad it by repeating the order from its start, as often as needed (false).
  bool drop_last = false;

  // Without drop_last: pad (true), or leave the order as it is (false), so that each sample is
  // drawn once and the first ranks draw one more than the others. For evaluation, where repeats
  // would count twice; a training in which ranks make different numbers of steps needs join().
  // Source: ours.
  bool pad = true;

  // Draws the order of an epoch, in place of shuffle: dataset_size indices, of int64, in which any
  // may come any number of times. `generator` is seeded with seed + epoch, so that all ranks draw
  // the same; a function must use no other. Weighted sampling of `draws` samples, for example:
  //
  //   DistributedSampler sampler(draws, *group, {.order = [weights](std::size_t draws,
  //                                                                 at::Generator generator) {
  //     return at::multinomial(weights, draws, /*replacement=*/true, generator);
  //   }});
  //
  // A saved position does not name its function. Source: ours.
  std::function<at::Tensor(std::size_t dataset_size, at::Generator generator)> order;

  // Shuffle by a permutation that is computed position by position, in place of PyTorch's order:
  // for billions of samples. It takes no memory, and 20 to 150 ns a sample; of less than some
  // dozens of samples not all orders are equally likely. Source: ours.
  bool constant_memory = false;

  // Accept a dataset of no samples, as PyTorch does: an epoch ends at once. For parts of a dataset
  // that may be empty; otherwise the dataset's path or filter is mostly wrong, and a training on
  // nothing looks like a success. Source: ours.
  bool allow_empty = false;
};

// Selects this rank's samples: exactly the order of PyTorch's DistributedSampler, for LibTorch's
// data loader. With L samples and W ranks this rank gets size() of them: rank r takes positions r,
// r + W, r + 2W, ... of one order that all ranks compute without communication. Memory is taken for
// a shuffled order alone, 8 bytes a sample while it is drawn; with constant_memory for none.
//
// The data loader copies its sampler, so copies share what a program says and asks through any of
// them: the epoch, and how far the pass over the data has come that a copy drew from last. Each
// copy draws for itself and has its own dataset size. Two data loaders on copies of one sampler
// overwrite each other's position: give each a sampler of its own. Ten samples, two ranks, seed 0,
// epoch 0: rank 0 gets 4 7 3 0 6 and rank 1 gets 1 5 9 8 2.
//
// Everything here is Local and does not block; the global random generator is not touched. A world
// of one gets the whole order. Source: torch/utils/data/distributed.py; docs/semantics.md 4.
class DistributedSampler : public torch::data::samplers::Sampler<> {
 public:
  // `dataset_size` in samples. Throws UsageError on bad options, and where it is 0 without
  // allow_empty.
  DistributedSampler(std::size_t dataset_size, const DistributedSamplerOptions& options);

  // Rank and world size of `group`. Throws UsageError if the options name others.
  DistributedSampler(std::size_t dataset_size, const c10d::ProcessGroup& group,
                     const DistributedSamplerOptions& options = {});

  // Begins a pass in the order of the epoch set last; `new_size` is a new dataset size. The data
  // loader calls it in begin(). The first pass of any copy after load() begins where that says.
  // Throws UsageError, and changes nothing, where new_size is 0 without allow_empty.
  void reset(std::optional<std::size_t> new_size = std::nullopt) override;

  // The next samples, at most `batch_size` (at least 1) of them; nothing when the epoch is over.
  // The order is fixed by the first call after construction, reset() or load(). Throws UsageError
  // where a loaded position belongs to a dataset of another size than this copy's, and where
  // options.order returned something else than dataset_size indices.
  std::optional<std::vector<std::size_t>> next(std::size_t batch_size) override;

  // Epoch, position and dataset size, enough to continue in the middle of an epoch, through
  // whichever copy. The position counts the samples that were drawn. A data loader with workers
  // draws up to max_jobs batches (twice its workers) ahead of the program, which then names how
  // many of this epoch's samples it has used, from the epoch's start: the next pass begins there.
  // Throws UsageError if fewer were drawn.
  void save(torch::serialize::OutputArchive& archive) const override;
  void save(torch::serialize::OutputArchive& archive, std::size_t samples_used) const;

  // The next pass, of this copy or of another, begins at the saved position, the passes after it at
  // the start; an epoch that was over when it was saved has nothing left. A copy keeps its dataset
  // size, and its next() throws UsageError if the position belongs to another. Throws UsageError,
  // and changes nothing, if the archive's sampler had other ranks, seed, shuffle, drop_last, pad or
  // constant_memory.
  void load(torch::serialize::InputArchive& archive) override;

  // Takes effect at the next reset() (the data loader's begin()); at least 0. Without it
  // every epoch has the same order. Another epoch than that of a loaded position begins at its
  // start.
  void set_epoch(std::int64_t epoch);
  std::int64_t epoch() const;

  // The options, completed by the group's rank and number of ranks, and the size that it was given.
  const DistributedSamplerOptions& options() const { return options_; }
  std::size_t dataset_size() const { return dataset_size_; }

  // Samples this rank gets in an epoch, repeats included. Without `pad` ranks get different
  // numbers.
  std::size_t size() const;

  // All of this rank's samples in the order of the epoch set last, whatever the position is.
  std::vector<std::size_t> indices() const;

  // The order of the epoch set last that the ranks divide, of int64 [dataset size]; undefined where
  // it is not stored: 0, 1, 2, ..., or that of constant_memory, which options and epoch determine.
  // check_replicas_equal() compares it between ranks.
  at::Tensor shared_order() const;

 private:
  struct Progress;  // what copies share

  void check_size(std::size_t dataset_size) const;
  void begin_pass();
  std::size_t drawn() const;
  void write(torch::serialize::OutputArchive& archive, std::size_t position) const;

  std::size_t dataset_size_;
  DistributedSamplerOptions options_;
  std::shared_ptr<Progress> progress_;
  std::shared_ptr<const RankOrder> order_;  // of the pass that this copy draws from
  std::int64_t order_epoch_ = 0;
  std::size_t position_ = 0;
};

}  // namespace lockstep
