#include "cli/commands/commands.h"
#include "cli/exit_codes.h"
#include "cli/usage.h"
#include "ddp/distributed_sampler.h"

#include <iostream>

namespace lockstep::cli {

namespace {

constexpr int64_t kLengthMost = 1'000'000'000;
constexpr int64_t kWorldMost = 1'000'000;

struct Flags {
  std::string length, world, seed = "0", epoch = "0";
  bool drop_last = false, no_pad = false, no_shuffle = false;
};

int shard(const Flags& flags) {
  const int64_t length = whole_number("--length", flags.length, 0, kLengthMost);
  const int64_t world = whole_number("--world", flags.world, 1, kWorldMost);
  const int64_t epoch = whole_number("--epoch", flags.epoch, 0, kLengthMost);
  DistributedSamplerOptions options{.num_replicas = world,
                                    .shuffle = !flags.no_shuffle,
                                    .seed = seed_value("--seed", flags.seed),
                                    .drop_last = flags.drop_last,
                                    .pad = !flags.no_pad};
  for (int64_t rank = 0; rank < world; ++rank) {
    options.rank = rank;
    DistributedSampler sampler(static_cast<size_t>(length), options);
    sampler.set_epoch(epoch);
    std::cout << "rank " << rank << ":";
    for (const size_t index : sampler.indices()) std::cout << " " << index;
    std::cout << "\n";
  }
  return kHeld;
}

}  // namespace

void add_shard(CLI::App& app, int& status) {
  auto* command = app.add_subcommand("shard", "each rank's sampler indices, one line a rank");
  const auto flags = std::make_shared<Flags>();
  const auto option = [&](const char* name, std::string& value, const char* help) {
    return command->add_option(name, value, help)->type_name("N")->capture_default_str();
  };
  option("--length", flags->length, "samples in the dataset")->required();
  option("--world", flags->world, "number of ranks")->required();
  option("--seed", flags->seed, "the order is drawn from seed + epoch");
  option("--epoch", flags->epoch, "from 0");
  command->add_flag("--drop-last", flags->drop_last, "cut the tail instead of repeating samples");
  command->add_flag("--no-pad", flags->no_pad, "neither cut nor repeat: each sample once");
  command->add_flag("--no-shuffle", flags->no_shuffle, "0, 1, 2, ... instead of a drawn order");
  command->callback([flags, &status] { status = shard(*flags); });
}

}  // namespace lockstep::cli
