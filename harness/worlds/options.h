// The options that a case may request of a subject. Plain numbers and no torch, so that the structs
// of cases can hold them as fields.
#pragma once

#include "harness/base/fields.h"

#include <cmath>
#include <compare>
#include <iterator>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace lockstep {

// Options of a wrapped model that are no fields of a case: a scenario that is about them derives
// them from its own.
struct FurtherOptions {
  // Either replaces WrapOptions::broadcast_buffers; the second is the old name of the first.
  std::optional<bool> forward_sync_buffers, broadcast_buffers;
  std::optional<int64_t> timeout_ms;
  // Compare the ranks' replicas in every so many synchronised forwards; 0: never.
  int check_replicas_every = 0;
  // Parameters and buffers travel in messages of about so many bytes; 0: the subject's own number.
  // It changes nothing that a rank observes, so a subject without it may ignore it where all ranks
  // have the same.
  int64_t broadcast_cap_bytes = 0;
  // After its first passes a replica times one in so many; 0: the subject's own number. A subject
  // that keeps no log may ignore it.
  int timed_passes = 0;
  // Some rank has options that not every subject has: one without them throws Unsupported on all.
  bool on_some_rank = false;
  auto operator<=>(const FurtherOptions&) const = default;
};

enum class HookKind {
  all_reduce,
  fp16_compress,
  bf16_compress,
  noop,
  quantize,
  power_sgd,
  gathered,  // each rank gathers all ranks' gradients and sums them itself
  own_work,  // an all-reduce of the program's own, on the same group
};
enum class HookCompression { none, fp16_compress, bf16_compress };

// A communication hook: what happens to a full bucket in place of the all-reduce. It is the
// subject's own where its kind does not say otherwise.
struct HookOptions {
  HookKind kind = HookKind::all_reduce;
  HookCompression around = HookCompression::none;  // gives it rounded gradients
  int64_t chunk = 512;                             // of quantize
  int64_t matrix_rank = 1;                         // of power_sgd
  int64_t start = 0;  // the number of passes that power_sgd averages first
  bool use_error_feedback = true, warm_start = true;
  int64_t compression_log2 = 0;  // of power_sgd's min_compression_rate
  int64_t random_seed = 0;       // of power_sgd
  auto operator<=>(const HookOptions&) const = default;
  static constexpr auto fields() {
    return std::tuple{field("kind", &HookOptions::kind),
                      field("around", &HookOptions::around),
                      field("chunk", &HookOptions::chunk, at_least(1)),
                      field("matrix_rank", &HookOptions::matrix_rank, between(1, 64)),
                      field("start", &HookOptions::start, between(0, 100)),
                      field("use_error_feedback", &HookOptions::use_error_feedback),
                      field("warm_start", &HookOptions::warm_start),
                      field("compression_log2", &HookOptions::compression_log2, between(-8, 8)),
                      field("random_seed", &HookOptions::random_seed, between(0, 1 << 20))};
  }
};

// Post-local SGD's communication hook.
struct LocalSgdOptions {
  int64_t start = 0;          // so many passes average over all ranks
  int subgroup_size = 0;      // then over so many consecutive ranks each; 0: over none
  int64_t passes_before = 0;  // that were made before the model was wrapped
  auto operator<=>(const LocalSgdOptions&) const = default;
};

// Groups of `size` consecutive ranks average in steps that `period` divides.
struct AveragingLevelSpec {
  int64_t period = 1;
  int size = 1;
  auto operator<=>(const AveragingLevelSpec&) const = default;
  static constexpr auto fields() {
    return std::tuple{field("period", &AveragingLevelSpec::period, between(1, 1000)),
                      field("size", &AveragingLevelSpec::size, between(1, 1024))};
  }
};

// A join's effect once ranks are out of inputs: the others are shadowed, and averages are over the
// world, or over the ranks that are `live`; all ranks throw; or nothing.
enum class JoinKind { world, live, throws, disabled };

// A program's own collectives and their reductions have torch.distributed's names.
enum class CollectiveKind { all_reduce, reduce, broadcast, all_gather, gather, scatter, barrier };
enum class ReductionKind { sum, avg, product, min, max, band, bor, bxor };

// An averager is given a program's parameters, a module that has them, or their optimizer.
enum class AveragedThing { parameters, module, optimizer };

// When the ranks average their models.
struct AveragingOptions {
  bool is_hierarchical = false;            // else there is one level, and the warm-up is subtracted
  std::vector<AveragingLevelSpec> levels;  // ascending; the last is of all ranks
  int64_t warmup_steps = 0;
  bool through_optimizer = true;  // the averager is called by the optimizer, not by the program
  AveragedThing given = AveragedThing::parameters;  // by the program
  double momentum = 0;                              // of the optimizer
};

// How to wrap a model.
struct WrapOptions {
  // Send rank 0's buffers to every rank before each forward of a model in training.
  bool broadcast_buffers = true;
  // Upper limit of a gradient bucket in bytes; 0 leaves it to the subject. One below 0 is a
  // mistake that no case has as a field.
  int64_t bucket_cap_bytes = 0;
  // As torch.nn.parallel.DistributedDataParallel has them. A subject without one of them throws
  // Unsupported where it would change what a rank observes.
  bool find_unused_parameters = false;
  bool gradient_as_bucket_view = false;
  bool static_graph = false;
  bool skip_all_reduce_unused_params = false;
  bool batched_grad_copy = false;
  // Make parameters and buffers rank 0's at the start. Off: the program makes them equal.
  bool init_sync = true;
  // Leave buffers alone in the forward after a local one.
  bool buffer_sync_lag = true;
  // Instead of bucket_cap_bytes: the limit of the first bucket, the second, ...; the last repeats.
  std::vector<int64_t> bucket_caps_bytes;
  // Names of parameters and buffers, which a program takes from its model, and no case holds: those
  // to leave alone, and those whose gradients travel last, once that of `delayed_until` is there.
  std::vector<std::string> ignored, delayed;
  std::string delayed_until;
  // The hook of a scenario whose cases have one.
  std::optional<HookOptions> hook;
  std::optional<LocalSgdOptions> local_sgd;  // likewise, in its place
  // Average buffers over the ranks in place of the broadcast: "before_forward" or "after_forward".
  // Likewise.
  std::string buffer_hook = "";
  FurtherOptions further = {};
  auto operator<=>(const WrapOptions&) const = default;
  std::string unmet_precondition() const {
    return skip_all_reduce_unused_params && !find_unused_parameters && !static_graph
               ? "skip_all_reduce_unused_params needs find_unused_parameters or static_graph"
               : "";
  }

  // The options that are off unless given, under PyTorch's names. Fields of cases, their draws,
  // Lockstep's options, PyTorch's arguments, what ranks compare and how they may differ follow from
  // this list: a new option is a member and a line here.
  struct Switch {
    const char* name;
    bool WrapOptions::*value;
    bool is_in_pytorch;  // PyTorch 2.11's DistributedDataParallel has it
  };
  static constexpr Switch kSwitches[]{
      {"find_unused_parameters", &WrapOptions::find_unused_parameters, true},
      {"gradient_as_bucket_view", &WrapOptions::gradient_as_bucket_view, true},
      {"static_graph", &WrapOptions::static_graph, true},
      {"skip_all_reduce_unused_params", &WrapOptions::skip_all_reduce_unused_params, true},
      {"batched_grad_copy", &WrapOptions::batched_grad_copy, false}};

  // The name of an option that is on and that PyTorch lacks, or nullptr.
  const char* missing_in_pytorch() const {
    for (const auto& each : kSwitches)
      if (!each.is_in_pytorch && this->*each.value) return each.name;
    return nullptr;
  }

  static constexpr auto fields() {
    const auto switches = []<size_t... i>(std::index_sequence<i...>) {
      return std::tuple{field(kSwitches[i].name, kSwitches[i].value)...};
    };
    return std::tuple_cat(
        std::tuple{field("broadcast_buffers", &WrapOptions::broadcast_buffers),
                   field("bucket_cap_bytes", &WrapOptions::bucket_cap_bytes, at_least(0))},
        switches(std::make_index_sequence<std::size(kSwitches)>()),
        std::tuple{field("init_sync", &WrapOptions::init_sync),
                   field("buffer_sync_lag", &WrapOptions::buffer_sync_lag),
                   field("bucket_caps_bytes", &WrapOptions::bucket_caps_bytes, at_least(0))});
  }
};

// Options that PyTorch's reducer alone, without its DistributedDataParallel, does not have.
inline bool has_further(const WrapOptions& options) {
  auto further = options.further;
  if (!further.on_some_rank) further.broadcast_cap_bytes = 0;
  further.timed_passes = 0;
  return !options.init_sync || !options.buffer_sync_lag || !options.bucket_caps_bytes.empty() ||
         !options.ignored.empty() || options.hook || options.local_sgd ||
         !options.delayed.empty() || !options.delayed_until.empty() ||
         !options.buffer_hook.empty() || further != FurtherOptions();
}

// A layer that normalises over the batches of all ranks of a group.
struct NormOptions {
  int64_t channels = 1;
  int64_t eps_log2 = -4;       // what is added to the variance
  int64_t momentum_log2 = -2;  // the weight of a new batch in the running statistics
  bool zero_momentum = false;  // instead of that: a new batch weighs nothing
  bool cumulative = false;     // instead of both: the average over all batches so far
  bool affine = true;          // a weight and a bias for each channel
  bool track_running_stats = true;
  // The longest wait of the layer; no field of a case.
  std::optional<int64_t> timeout_ms = {};
  auto operator<=>(const NormOptions&) const = default;
  static constexpr auto fields() {
    return std::tuple{field("channels", &NormOptions::channels, between(1, 4096)),
                      field("eps_log2", &NormOptions::eps_log2, between(-40, 10)),
                      field("momentum_log2", &NormOptions::momentum_log2, between(-20, 0)),
                      field("zero_momentum", &NormOptions::zero_momentum),
                      field("cumulative", &NormOptions::cumulative),
                      field("affine", &NormOptions::affine),
                      field("track_running_stats", &NormOptions::track_running_stats)};
  }
};

// The weight of a new batch; none where all batches weigh the same.
inline std::optional<double> momentum_of(const NormOptions& options) {
  if (options.cumulative) return {};
  return options.zero_momentum ? 0.0 : std::ldexp(1.0, static_cast<int>(options.momentum_log2));
}

// The order of an epoch: the subject's own, or one that the program draws, from the generator that
// the subject gives it: a permutation, whose numbers lie apart in memory; the same moved on by one;
// each second sample twice; or a permutation that a sampler must refuse, where the dataset's length
// is odd.
enum class SampleOrder {
  own,
  strided,
  moved,
  repeated,
  undefined,
  of_int32,
  of_two_axes,
  too_short,
  below_zero,
  too_long
};

constexpr bool is_refused(SampleOrder order, int64_t length) {
  return order >= SampleOrder::undefined && length % 2 == 1;
}

// The sample at a place at which a permutation of `length` has `index`.
constexpr int64_t sample_at(SampleOrder order, int64_t index, int64_t length) {
  if (order == SampleOrder::moved) return (index + 1) % length;
  return order == SampleOrder::repeated ? index / 2 * 2 : index;
}

// How to divide a dataset of `length` samples among the ranks.
struct ShardOptions {
  int64_t length = 1;      // samples in the whole dataset
  bool shuffle = false;    // in an order drawn from seed + epoch, not by index
  bool drop_last = false;  // shorten to a multiple of the world instead of repeating samples
  bool pad = true;         // without drop_last: repeat samples; off: draw each once
  // The shuffled order is computed place by place, and is not randperm's.
  bool constant_memory = false;
  int64_t seed = 0;             // the same on every rank
  bool through_loader = false;  // draw through the subject's data loader, not its sampler alone
  int64_t batch_size = 1;       // of that loader
  // These are no fields of a case. A subject without such an order throws Unsupported.
  SampleOrder order = SampleOrder::own;
  // The process group tells rank and number of ranks, and refuses others.
  bool from_group = false;
  std::optional<int> rank;   // another rank's share than this one's
  std::optional<int> ranks;  // of so many instead of all
  bool allow_empty = true;   // a dataset of no samples is no error
  auto operator<=>(const ShardOptions&) const = default;
  static constexpr auto fields() {
    return std::tuple{field("length", &ShardOptions::length, at_least(0)),
                      field("shuffle", &ShardOptions::shuffle),
                      field("drop_last", &ShardOptions::drop_last),
                      field("pad", &ShardOptions::pad),
                      field("constant_memory", &ShardOptions::constant_memory),
                      field("seed", &ShardOptions::seed, at_least(0)),
                      field("through_loader", &ShardOptions::through_loader),
                      field("batch_size", &ShardOptions::batch_size, at_least(1))};
  }
};

}  // namespace lockstep
