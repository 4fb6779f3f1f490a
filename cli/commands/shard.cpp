#include "cli/commands/shard.h"

#include "cli/commands/commands.h"
#include "cli/exit_codes.h"
#include "cli/print.h"
#include "cli/usage.h"
#include "ddp/distributed_sampler.h"

#include <memory>
#include <string>
#include <vector>

namespace lockstep::cli {

namespace {

constexpr int64_t kLengthMost = 1'000'000'000;
constexpr int64_t kShardsMost = 1'000'000;

struct ShardFlags {
  int64_t length = 0, world = 1, epoch = 0;
  uint64_t seed = 0;
  bool drop_last = false, no_pad = false, no_shuffle = false;
};

std::vector<size_t> dealt(int64_t length, int64_t epoch, int64_t rank,
                          DistributedSamplerOptions options) {
  options.rank = rank;
  DistributedSampler sampler(static_cast<size_t>(length), options);
  sampler.set_epoch(epoch);
  return sampler.indices();
}

void print_shards(const ShardFlags& flags) {
  const DistributedSamplerOptions options{.num_replicas = flags.world,
                                          .shuffle = !flags.no_shuffle,
                                          .seed = flags.seed,
                                          .drop_last = flags.drop_last,
                                          .pad = !flags.no_pad,
                                          .allow_empty = true};
  for (int64_t rank = 0; rank < flags.world; ++rank) {
    std::string line = "rank " + std::to_string(rank) + ":";
    for (const size_t index : dealt(flags.length, flags.epoch, rank, options))
      line += " " + std::to_string(index);
    print_shown(line + "\n");
  }
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
  command->callback([flags, &status] {
    print_shards(*flags);
    status = kHeld;
  });
}

}  // namespace lockstep::cli
