#include "cli/commands/commands.h"
#include "cli/exit_codes.h"
#include "cli/print.h"
#include "cli/usage.h"
#include "harness/base/text.h"
#include "harness/process/single_threaded.h"
#include "harness/worlds/calibration.h"

#include <cmath>

namespace lockstep::cli {

namespace {

constexpr int kCalibratedWorldMost = 32;

struct CalibrateFlags {
  std::string world = "2";
};

std::string percent(double part) {
  return std::to_string(std::lround(100 * part)) + " %";
}

int show_prices(const CalibrateFlags& flags, SingleThreaded alone) {
  const auto world =
      static_cast<int>(whole_number("--world", flags.world, 2, kCalibratedWorldMost));
  const auto found = calibrate(std::move(alone), world);
  const auto& timing = found.timing;
  print("an operation on tensors   " + with_commas(timing.operation_ns) + " ns and " +
        with_commas(timing.picoseconds_per_element) + " ps an element (off by at most " +
        percent(found.computing_off_by) + ")\na message over Gloo       " +
        with_commas(timing.latency_ns) + " ns and " + with_commas(timing.megabytes_per_second) +
        " MB/s (off by at most " + percent(found.communicating_off_by) +
        ")\nin a simulated world      --tier sim --set world.timing='" + to_json(timing).dump() +
        "'\n");
  return kHeld;
}

}  // namespace

void add_calibrate(CLI::App& app, SingleThreaded& alone, int& status) {
  auto* command =
      app.add_subcommand("calibrate", "what things cost here, as prices of simulated worlds");
  const auto flags = std::make_shared<CalibrateFlags>();
  command->add_option("--world", flags->world, "number of ranks that all-reduce")
      ->type_name("N")
      ->capture_default_str();
  command->callback([flags, &alone, &status] { status = show_prices(*flags, std::move(alone)); });
}

}  // namespace lockstep::cli
