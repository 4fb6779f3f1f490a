#include "cli/launched.h"

#include "cli/usage.h"
#include "ddp/init.h"
#include "ddp/meeting/launcher.h"
#include "ddp/meeting/launcher_report.h"
#include "ddp/meeting/listening.h"

#include <iomanip>
#include <random>
#include <sstream>

namespace lockstep::cli {

namespace {

using Clock = std::chrono::steady_clock;

constexpr char kRankZero[] = "lockstep/campaign/rank_zero";
// To connect to rank 0, once all are known to be there.
constexpr std::chrono::seconds kConnectPatience{30};

Launch launch_here() {
  try {
    return launch_from_environment(process_environment);
  } catch (const std::exception& error) {
    throw UsageError(std::string("--tier launched: ") + error.what());
  }
}

// As Gloo's in init_process_group(): a named interface, else loopback or the way to the meeting
// point.
std::string own_address(const Launch& launch) {
  if (const auto name = value_in(process_environment, "GLOO_SOCKET_IFNAME"))
    return address_of_interface(*name);
  return listening_address(launch, meeting_point_from_environment(process_environment, launch),
                           address_towards);
}

std::string fresh_token() {
  std::random_device random;
  std::ostringstream token;
  for (int part = 0; part < 4; ++part)
    token << std::hex << std::setfill('0') << std::setw(8) << random();
  return token.str();
}

void publish(c10d::Store& store, const Json& what) {
  const auto text = what.dump();
  store.set(kRankZero, std::vector<uint8_t>(text.begin(), text.end()));
}

Json published(c10d::Store& store) {
  store.wait({kRankZero}, kConnectPatience);
  const auto bytes = store.get(kRankZero);
  return Json::parse(bytes.begin(), bytes.end());
}

// The library's own meeting makes sure that all are there, and of one world and version; its store
// then tells the others where rank 0 is. They meet over Gloo, whatever devices their hosts have.
CameTogether met(const LaunchedPlace& place, std::chrono::milliseconds limit, const Json& program,
                 const DevicesByBackend& devices) {
  const auto hello = [&](const std::string& address, const std::string& token) {
    auto own = hello_of(place.rank, address, token, program);
    own.local_rank = place.local_rank;
    own.devices = devices;
    return own;
  };
  const auto address = own_address(launch_here());
  const auto group = init_process_group({.backend = "cpu:gloo", .timeout = limit});
  const auto store = group->getStore();
  const auto until = Clock::now() + kConnectPatience;
  CameTogether together;
  together.store = std::make_shared<c10::intrusive_ptr<c10d::Store>>(store);
  if (place.rank == 0) {
    together.own = hello(address, fresh_token());
    if (place.size == 1) return together;
    const auto listener = listen_on(address);
    publish(*store, {{"address", address}, {"port", listener.port}, {"token", together.own.token}});
    together.members = gather(listener, together.own, place.size, until);
    return together;
  }
  const auto rank_zero = published(*store);
  together.own = hello(address, rank_zero.at("token").get<std::string>());
  together.rank_zero = join(rank_zero.at("address").get<std::string>(),
                            rank_zero.at("port").get<int>(), together.own, until);
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
  return {launch.standing.rank, launch.standing.world_size, launch.local_rank};
}

CameTogether come_together(const LaunchedPlace& place, std::chrono::milliseconds limit,
                           const Json& program, const DevicesByBackend& devices) {
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
