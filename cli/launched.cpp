#include "cli/launched.h"

#include "cli/usage.h"
#include "ddp/init.h"
#include "ddp/launcher_report.h"
#include "ddp/rendezvous/launcher.h"
#include "ddp/rendezvous/listening.h"
#include "harness/process/secret.h"

#include <algorithm>

namespace lockstep::cli {

namespace {

using Clock = std::chrono::steady_clock;

// To connect to rank 0, once all have arrived.
constexpr std::chrono::seconds kConnectPatience{30};

Launch launch_here() {
  try {
    return launch_from_environment(process_environment);
  } catch (const std::exception& error) {
    throw UsageError(std::string("--tier launched: ") + error.what());
  }
}

// As Gloo's in init_process_group(): a named interface, else loopback or the route to the
// rendezvous address.
std::string own_address(const Launch& launch) {
  if (const auto name = value_in(process_environment, "GLOO_SOCKET_IFNAME"))
    return address_of_interface(*name);
  return listening_address(launch, rendezvous_address_from_environment(process_environment, launch),
                           address_towards);
}

// Broadcasts rank 0's text over the group, which connects exactly the ranks of the rendezvous. Any
// process that reaches the store's port could overwrite a key there.
std::string from_rank_zero(c10d::ProcessGroup& group, const std::string& text) {
  constexpr std::int64_t kBytes = 512;
  std::vector<at::Tensor> tensors{at::zeros({kBytes}, at::kByte)};
  auto* const bytes = tensors.front().data_ptr<std::uint8_t>();
  if (group.getRank() == 0) std::copy(text.begin(), text.end(), bytes);
  group.broadcast(tensors, {})->wait();
  return {bytes, std::find(bytes, bytes + kBytes, 0)};
}

// Note [The campaign's secret]
std::string secret_here() {
  return value_in(process_environment, kSecretVariable).value_or("");
}

// The library's own rendezvous checks that all ranks have arrived, in one world and version. Its
// group then broadcasts rank 0's address, and lives until all ranks have it. It is over Gloo,
// whatever devices the hosts have.
LaunchedWorld met(const LaunchedPlace& place, std::chrono::milliseconds limit,
                  const RunnableProgram& program, const DevicesByBackend& devices) {
  const auto handshake = [&](const std::string& address, const std::string& token) {
    auto own = handshake_of(place.rank, address, token, program);
    own.local_rank = place.local_rank;
    own.devices = devices;
    return own;
  };
  const auto address = own_address(launch_here());
  const auto group = init_process_group({.backend = "cpu:gloo", .timeout = limit});
  const auto store = group->getStore();
  const auto until = Clock::now() + kConnectPatience;
  const auto secret = secret_here();
  LaunchedWorld together;
  together.store = std::make_shared<c10::intrusive_ptr<c10d::Store>>(store);
  if (place.rank == 0) {
    together.own = handshake(address, fresh_token());
    if (place.size == 1) return together;
    const auto listener = listen_on(address);
    from_rank_zero(
        *group,
        text_of(RankZero{.address = address, .port = listener.port, .token = together.own.token},
                secret));
    together.members = gather(listener, together.own, place.size, until, secret);
    return together;
  }
  const auto rank_zero = rank_zero_in(from_rank_zero(*group, ""), secret);
  together.own = handshake(address, rank_zero.token);
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

void tell_launcher(const std::string& sentence) {
  report_to_launcher(sentence);
}

}  // namespace lockstep::cli
