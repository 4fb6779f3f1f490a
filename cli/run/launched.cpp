#include "cli/run/launched.h"

#include "cli/known.h"
#include "cli/usage.h"
#include "ddp/launcher_report.h"
#include "ddp/rendezvous/launcher.h"
#include "ddp/rendezvous/listening.h"
#include "harness/process/secret.h"
#include "harness/worlds/launched/rendezvous.h"

#include <algorithm>

namespace lockstep::cli {

namespace {

using Clock = std::chrono::steady_clock;

// To connect to rank 0, once all have arrived, is allowed the time that all had to arrive, but at
// most this.
constexpr std::chrono::milliseconds kConnectPatience{30'000};

Launch launch_here() {
  try {
    return launch_from_environment(process_environment);
  } catch (const std::exception& error) {
    throw UsageError(std::string("--tier launched: ") + error.what());
  }
}

// Where the ranks of this process listen: at a named interface, else loopback or the route to the
// rendezvous address.
std::string own_address(const Launch& launch) {
  if (const auto name = value_in(process_environment, "GLOO_SOCKET_IFNAME"))
    return address_of_interface(*name);
  return listening_address(launch, rendezvous_address_from_environment(process_environment, launch),
                           address_towards);
}

// Where the processes have their rendezvous. Rank 0 listens there, unless its launcher serves the
// store.
StorePlace store_place(const Launch& launch) {
  auto point = rendezvous_address_from_environment(process_environment, launch);
  const auto name = value_in(process_environment, "GLOO_SOCKET_IFNAME");
  point.expects_other_hosts =
      name && *name != "lo" && launch.local_world_size != launch.position.world_size;
  StorePlace place{.address = point.address,
                   .port = point.port,
                   .holder = point.agent_runs_store ? "the launcher, which holds it,"
                                                    : "rank 0, which holds it,",
                   .keys = "lockstep/campaign/" + (point.job.empty() ? "" : point.job + "/") +
                           "attempt_" + std::to_string(point.attempt)};
  if (launch.position.rank != 0 || point.agent_runs_store) return place;
  const auto elsewhere = ": " + point.address + " is no address of this host";
  StoreSocket socket;
  try {
    socket = listen_for_store(point);
  } catch (const std::exception& error) {
    throw UsageError(std::string("rank 0 cannot open the store there (") + error.what() + ")" +
                     elsewhere);
  }
  place.listens = Descriptor(socket.number);
  place.served_at = socket.is_point_here ? socket.address : point.address;
  place.caveat = socket.is_point_here ? "" : elsewhere;
  place.is_in_use = socket.is_in_use && socket.is_point_here;
  if (socket.number < 0 && !place.is_in_use)
    throw UsageError("rank 0 cannot open the store there (" + socket.problem + ")" + place.caveat);
  return place;
}

// Note [The campaign's secret]
std::string secret_here() {
  return value_in(process_environment, kSecretVariable).value_or("");
}

// A launcher may start a world of one process without a place for a rendezvous, which it does not
// need.
bool is_alone(const Launch& launch) {
  return launch.launcher != Launcher::kTorchrun && launch.position.world_size == 1;
}

LaunchedWorld met(const LaunchedPlace& place, std::chrono::milliseconds limit,
                  const RunnableProgram& program, const DevicesByBackend& devices) {
  const auto launch = launch_here();
  const auto secret = secret_here();
  const auto address = own_address(launch);
  LaunchedWorld together;
  together.own = handshake_of(place.rank, address, place.rank == 0 ? fresh_token() : "", program);
  together.own.local_rank = place.local_rank;
  together.own.devices = devices;
  if (is_alone(launch)) return together;
  ListeningSocket listener;
  std::string text;
  if (place.rank == 0) {
    listener = listen_on(address);
    text = text_of(RankZero{.address = address, .port = listener.port, .token = together.own.token},
                   secret);
  }
  auto rendezvous = rendezvous_through(store_place(launch),
                                       {.rank = place.rank,
                                        .size = place.size,
                                        .version = std::string("Lockstep ") + kVersion,
                                        .has_secret = !secret.empty()},
                                       text, limit);
  together.store = std::move(rendezvous.store);
  const auto until = Clock::now() + std::min(limit, kConnectPatience);
  if (place.rank == 0) {
    together.members = gather(listener, together.own, place.size, until, secret);
    return together;
  }
  const auto rank_zero = rank_zero_in(rendezvous.from_rank_zero, secret);
  together.own.token = rank_zero.token;
  together.rank_zero = join(rank_zero.address, rank_zero.port, together.own, until, secret);
  return together;
}

}  // namespace

LaunchedPlace launched_place() {
  const auto launch = launch_here();
  if (launch.launcher == Launcher::kNone)
    throw UsageError(
        "--tier launched: nothing has launched this process beside others; start it with "
        "'lockstep launch', torchrun, mpirun or srun, or set RANK, WORLD_SIZE, MASTER_ADDR and "
        "MASTER_PORT");
  return {launch.position.rank, launch.position.world_size, launch.local_rank};
}

LaunchedWorld rendezvous_launched(const LaunchedPlace& place, std::chrono::milliseconds limit,
                                  const RunnableProgram& program, const DevicesByBackend& devices) {
  try {
    return met(place, limit, program, devices);
  } catch (const std::exception& error) {
    report_to_launcher(error.what());
    throw UsageError(std::string("--tier launched: ") + error.what());
  }
}

void report_failure(const std::string& sentence) {
  report_to_launcher(sentence);
}

}  // namespace lockstep::cli
