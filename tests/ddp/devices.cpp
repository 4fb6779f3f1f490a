#include "tests/ddp/devices.h"

#include "harness/accelerator/accelerator.h"
#include "harness/accelerator/backend.h"

#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <csignal>

namespace lockstep::testing {

std::vector<std::string> run_on_devices(int world_size, const RankProgram& program,
                                        std::chrono::milliseconds group_timeout) {
  return run_world(
      world_size,
      [&](const Group& group) {
        std::signal(SIGPIPE, SIG_IGN);  // the backend for the devices is no part of ddp/
        use_simulated_accelerator(2);
        add_accelerator_backend(*group);
        return program(group);
      },
      group_timeout);
}

std::string forgotten() {
  std::string text;
  for (const std::string& each : hazard_sentences()) text += " HAZARD: " + each;
  return text;
}

std::string waits_since(std::size_t mark) {
  std::string text;
  for (const std::string& each : host_waits(mark)) text += " HOST WAITS: " + each;
  return text;
}

void hand_over(const c10::Stream& from, const c10::Stream& to) {
  c10::Event event(from.device_type());
  event.record(from);
  event.block(to);
}

c10::Stream default_stream() {
  const c10::Device device = accelerator_device();
  return c10::impl::VirtualGuardImpl(device.type()).getDefaultStream(device);
}

c10::Stream side_stream() {
  const c10::Device device = accelerator_device();
  return c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device);
}

}  // namespace lockstep::testing
