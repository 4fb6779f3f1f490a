#include "cli/commands/shard.h"

#include "cli/commands/commands.h"
#include "cli/exit_codes.h"
#include "cli/print.h"
#include "cli/run/run_campaign.h"
#include "cli/usage.h"
#include "ddp/distributed_sampler.h"
#include "harness/base/text.h"
#include "reports/pictures/text.h"

#include <set>
#include <tuple>

namespace lockstep::cli {

namespace {

constexpr int64_t kLengthMost = 1'000'000'000;
constexpr int64_t kShardsMost = 1'000'000;
constexpr int64_t kMarks = 1'000;  // of a grid that somebody reads

struct ShardFlags {
  int64_t length = 0, world = 1, epoch = 0, epochs = 1, batch = 1;
  uint64_t seed = 0;
  std::string colour = "auto";
  bool drop_last = false, no_pad = false, no_shuffle = false;
};

std::vector<size_t> dealt(int64_t length, int64_t epoch, int64_t rank,
                          DistributedSamplerOptions options) {
  options.rank = rank;
  DistributedSampler sampler(static_cast<size_t>(length), options);
  sampler.set_epoch(epoch);
  return sampler.indices();
}

// One epoch, a group of columns for each batch.
reports::Picture picture_of(const std::vector<std::vector<size_t>>& by_rank, int64_t epoch,
                            int64_t batch, int64_t length) {
  reports::Grid grid{.column_axis = "place", .columns = {}, .rows = {}};
  size_t steps = 0;
  for (size_t rank = 0; rank < by_rank.size(); ++rank) {
    grid.rows.push_back({reports::rank_label(static_cast<int>(rank)), {}});
    steps = std::max(steps, by_rank[rank].size());
  }
  std::set<size_t> seen;
  size_t draws = 0;
  for (size_t step = 0; step < steps; ++step) {
    if (step % static_cast<size_t>(batch) == 0)
      grid.columns.push_back({"batch " + std::to_string(step / static_cast<size_t>(batch)), {}});
    grid.columns.back().names.push_back(std::to_string(step));
    for (size_t rank = 0; rank < by_rank.size(); ++rank) {
      if (step >= by_rank[rank].size()) {
        grid.rows[rank].cells.push_back({"", reports::Mark::missing});
        continue;
      }
      const auto sample = by_rank[rank][step];
      ++draws;
      grid.rows[rank].cells.push_back({std::to_string(sample), seen.insert(sample).second
                                                                   ? reports::Mark::plain
                                                                   : reports::Mark::repeated});
    }
  }
  const auto never = length - static_cast<int64_t>(seen.size());
  return {.title = "Epoch " + std::to_string(epoch),
          .caption = std::to_string(seen.size()) + " of " + counted(length, "sample") + " seen, " +
                     std::to_string(draws - seen.size()) + " again, " + std::to_string(never) +
                     " never",
          .body = std::move(grid),
          .key = {{reports::Mark::repeated, "drawn before in this epoch"},
                  {reports::Mark::missing, "no sample"}}};
}

// Lines of indices, or a grid for each epoch.
int shard(const ShardFlags& flags, bool draws_grids) {
  const auto [length, world, epoch] = std::tuple(flags.length, flags.world, flags.epoch);
  const DistributedSamplerOptions options{.num_replicas = flags.world,
                                          .shuffle = !flags.no_shuffle,
                                          .seed = flags.seed,
                                          .drop_last = flags.drop_last,
                                          .pad = !flags.no_pad,
                                          .allow_empty = true};
  if (!draws_grids) {
    for (int64_t rank = 0; rank < world; ++rank) {
      std::string line = "rank " + std::to_string(rank) + ":";
      for (const size_t index : dealt(length, epoch, rank, options))
        line += " " + std::to_string(index);
      print_shown(line + "\n");
    }
    return kHeld;
  }
  if (length == 0 || length + world > kMarks)
    throw UsageError("--epochs and --batch draw grids: expected from 1 to " +
                     std::to_string(kMarks) + " samples and ranks together");
  auto style = style_of_stdout(flags.colour);
  if (style.columns == 0) style.columns = kColumnsOfPaper;
  for (int64_t each = epoch; each < epoch + flags.epochs; ++each) {
    std::vector<std::vector<size_t>> by_rank;
    for (int64_t rank = 0; rank < world; ++rank)
      by_rank.push_back(dealt(length, each, rank, options));
    print_shown((each == epoch ? "" : "\n") +
                reports::text_of(picture_of(by_rank, each, flags.batch, length), style));
  }
  return kHeld;
}

}  // namespace

void add_shard(CLI::App& app, int& status) {
  auto* command = app.add_subcommand("shard", "each rank's sampler indices, one line a rank");
  const auto flags = std::make_shared<ShardFlags>();
  const auto option = value_options_of(*command);
  option("--length", flags->length, "N", "samples in the dataset",
         whole_numbers(int64_t{0}, kLengthMost))
      ->required();
  option("--world", flags->world, "N", "number of ranks", whole_numbers(int64_t{1}, kShardsMost))
      ->required();
  option("--seed", flags->seed, "N", "the order is drawn from seed + epoch", seed_value)
      ->default_str("0");
  option("--epoch", flags->epoch, "N", "from 0", whole_numbers(int64_t{0}, kLengthMost))
      ->default_str("0");
  command->add_flag("--drop-last", flags->drop_last, "cut the tail instead of repeating samples");
  command->add_flag("--no-pad", flags->no_pad, "neither cut nor repeat: each sample once");
  command->add_flag("--no-shuffle", flags->no_shuffle, "0, 1, 2, ... instead of a drawn order");
  const auto* const epochs = option("--epochs", flags->epochs, "N",
                                    "a grid for each of so many epochs, with repeats marked",
                                    whole_numbers(int64_t{1}, int64_t{100}));
  const auto* const batch =
      option("--batch", flags->batch, "N", "a grid with a group of columns for each batch",
             whole_numbers(int64_t{1}, kMarks));
  add_colour(*command, flags->colour);
  command->callback([flags, epochs, batch, &status] {
    status = shard(*flags, epochs->count() + batch->count() > 0);
  });
}

}  // namespace lockstep::cli
