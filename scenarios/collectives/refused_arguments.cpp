#include "scenarios/collectives/refused_arguments.h"

#include "scenarios/collectives/loaded_files.h"
#include "scenarios/collectives/state_arguments.h"

#include <torch/torch.h>

namespace lockstep::scenarios::collectives {

namespace {

using Call = std::function<void(RankContext& here, bool has_another)>;

Refused refused_by(Call call, const std::string& reason) {
  return {[call = std::move(call)](RankContext& here) {
            return [&here, call](bool has_another) { call(here, has_another); };
          },
          reason};
}

// A program's own collective, of which one rank changes an argument.
Refused of_program(CollectiveKind kind, const std::function<void(ProgramCollective&)>& change,
                   const std::string& reason) {
  return refused_by(
      [kind, change](RankContext& here, bool has_another) {
        ProgramCollective call{.kind = kind, .tensor = numbers(2), .parts = {}};
        if (has_another) change(call);
        collective(here, call);
      },
      word_of(kind) + " 'of the program': " + reason);
}

// The reduction of such numbers, where all others sum real ones.
Refused reduced(at::ScalarType dtype, ReductionKind reduction, const std::string& reason) {
  return of_program(
      CollectiveKind::all_reduce,
      [dtype, reduction](ProgramCollective& call) {
        call.tensor = numbers(2, dtype);
        call.reduction = reduction;
      },
      reason);
}

// A barrier of a new group of rank 0, or of these ranks.
Refused new_group_of(const std::vector<int>& ranks, const std::string& reason) {
  return refused_by(
      [ranks](RankContext& here, bool has_another) {
        collective(here, {.kind = CollectiveKind::barrier,
                          .tensor = numbers(1),
                          .parts = {},
                          .ranks = has_another ? ranks : std::vector{0}});
      },
      "new_group: " + reason);
}

Refused scattered_undefined(int source) {
  return refused_by(
      [source](RankContext& here, bool has_another) {
        std::vector<at::Tensor> parts(static_cast<size_t>(here.rank() == source ? here.size() : 0),
                                      numbers(2));
        if (has_another) parts.front() = at::Tensor();
        collective(here, {.kind = CollectiveKind::scatter,
                          .tensor = numbers(2),
                          .root = source,
                          .parts = parts});
      },
      "scatter 'of the program': part 0 is undefined, expected the tensor's Double [2] on cpu");
}

Refused averager(AveragingOptions options, const std::string& reason) {
  const bool is_hierarchical = options.is_hierarchical;
  return refused_by(
      [options = std::move(options)](RankContext& here, bool has_another) {
        const AveragingOptions right{.is_hierarchical = options.is_hierarchical,
                                     .levels = {{.period = 1, .size = here.size()}}};
        averaged_sgd(here, {leaf(2)}, has_another ? options : right);
      },
      std::string(is_hierarchical ? "HierarchicalModelAverager: " : "PeriodicModelAverager: ") +
          reason);
}

Refused levels_of(const std::vector<AveragingLevelSpec>& all, const std::string& said,
                  const std::string& expected) {
  return averager({.is_hierarchical = true, .levels = all},
                  "levels are " + said + ", expected " + expected);
}

Refused normalised(const at::Tensor& input, const std::string& problem) {
  return refused_by(
      [input](RankContext& here, bool has_another) {
        const auto layer = lockstep::sync_batch_norm(here, {.channels = 2});
        layer->forward(has_another ? input : torch::ones({2, 2}));
      },
      "the input of SyncBatchNorm has " + problem);
}

// Parts that a rank saves beside a step, and their path.
struct Saved {
  std::string path;
  bool has_step = true;
  TrainingState state = {.generators = {}};
  KeptCheckpoints kept = {};
};

Refused saved_as(const std::function<void(Saved&)>& change, const std::string& reason) {
  return {[change](RankContext& here) {
            const auto path = path_of_checkpoint(here);
            return [&here, change, path](bool has_another) {
              int64_t step = 4;
              Saved mine{.path = path};
              if (has_another) change(mine);
              if (mine.has_step) mine.state.step = &step;
              checkpoints(here).save(mine.path, here.group(), mine.state, mine.kept, {});
            };
          },
          "save_checkpoint: " + reason};
}

}  // namespace

std::optional<Refused> refused_argument(const Disagreeing& c) {
  using enum Argument;
  const int size = c.world.size;
  const std::string all = std::to_string(size), last = std::to_string(size - 1);
  const std::string twice = std::to_string(2 * size);
  switch (c.argument) {
    case undefined_tensor:
      return of_program(
          CollectiveKind::all_reduce, [](auto& call) { call.tensor = at::Tensor(); },
          "its tensor is undefined");
    case sparse_tensor:
      return of_program(
          CollectiveKind::broadcast, [](auto& call) { call.tensor = numbers(2).to_sparse(); },
          "its tensor is not dense");
    case source_beyond_the_world:
      return of_program(
          CollectiveKind::broadcast, [size](auto& call) { call.root = size; },
          "the source is " + all + ", expected 0 to " + last);
    case destination_below_zero:
      return of_program(
          CollectiveKind::gather, [](auto& call) { call.root = -1; },
          "the destination is -1, expected 0 to " + last);
    case sum_of_booleans:
      return reduced(at::kBool, ReductionKind::sum,
                     R"(SUM of Bool tensors is not offered: MAX means "any", and MIN "all")");
    case average_of_integers:
      return reduced(at::kLong, ReductionKind::avg,
                     "AVG of Long tensors is not offered: convert them to a floating dtype");
    case bits_of_numbers:
      return reduced(at::kDouble, ReductionKind::bxor,
                     "BXOR of Double tensors is not offered: it is for integers and bool");
    case product_of_complex_numbers:
      return reduced(at::kComplexDouble, ReductionKind::product,
                     "PRODUCT of ComplexDouble tensors is not offered: complex tensors have SUM "
                     "and AVG");
    case no_timeout:
      return of_program(
          CollectiveKind::barrier, [](auto& call) { call.timeout_ms = 0; },
          "timeout is 0 ms, expected a positive time");
    case undefined_part:
      return scattered_undefined(c.rank % size);
    case rank_twice:
      return new_group_of({0, 0}, "ranks has a rank twice: 0, 0");
    case rank_beyond_the_world:
      return new_group_of({size, 0}, "ranks are 0, " + all + ", expected ranks of 0 to " + last);
    case rank_below_zero:
      return new_group_of({0, -1}, "ranks are -1, 0, expected ranks of 0 to " + last);
    case period_of_zero:
      return averager({.levels = {{.period = 0, .size = size}}},
                      "period is 0, expected at least 1");
    case warmup_below_zero:
      return averager({.levels = {{.period = 1, .size = size}}, .warmup_steps = -1},
                      "warmup_steps is -1, expected at least 0");
    case no_levels:
      return averager({.is_hierarchical = true, .levels = {}},
                      "levels are none, expected at least one");
    case levels_of_one_period:
      return levels_of({{.period = 2, .size = 1}, {.period = 2, .size = size}},
                       "period 2 in groups of 1, period 2 in groups of " + all,
                       "periods that grow from at least 1");
    case levels_of_odd_groups:
      return levels_of({{.period = 1, .size = 2}, {.period = 2, .size = 3}},
                       "period 1 in groups of 2, period 2 in groups of 3",
                       "groups each of which is a multiple of the one before");
    case levels_of_more_ranks:
      return levels_of({{.period = 1, .size = 2 * size}}, "period 1 in groups of " + twice,
                       "the last groups to be of all " + all + " ranks");
    case channels_of_input:
      return normalised(torch::ones({2, 5}), "shape [2, 5], expected [samples, 2, ...]");
    case row_of_input:
      return normalised(torch::ones({2}), "shape [2], expected [samples, 2, ...]");
    case integers_of_input:
      return normalised(torch::ones({2, 2}, at::kLong),
                        "dtype Long, expected Float, Double, Half or BFloat16");
    case empty_path:
      return saved_as([](Saved& mine) { mine.path = ""; }, "the path is empty");
    case nothing_saved:
      return saved_as([](Saved& mine) { mine.has_step = false; },
                      "the checkpoint has nothing in it");
    case undefined_generator:
      return saved_as([](Saved& mine) { mine.state.generators.resize(1); },
                      "generator 0 is undefined");
    case samples_of_no_sampler:
      return saved_as([](Saved& mine) { mine.state.samples_used = 3; },
                      "samples_used is 3, and there is no sampler");
    case none_kept:
      return saved_as([](Saved& mine) { mine.kept.keep_last = 0; },
                      "keep_last is 0, expected at least 1");
    case folder_in_the_way:
      return refused_over_a_folder();
    default:
      return {};
  }
}

std::optional<Refused> refused(const Disagreeing& c) {
  for (const auto find : {refused_argument, refused_optimizer, refused_file, refused_pickle})
    if (auto found = find(c)) return found;
  return {};
}

std::optional<TensorValue> numbers_held(const Disagreeing& c, bool is_loaded) {
  if (refused_file(c)) return numbers_of_file(c, is_loaded);
  if (refused_pickle(c)) return numbers_of_pickle(is_loaded);
  return {};
}

}  // namespace lockstep::scenarios::collectives
