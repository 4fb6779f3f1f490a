#include "harness/worlds/devices/backends.h"

#include "harness/accelerator/accelerator.h"
#include "harness/accelerator/backend.h"
#include "harness/base/text.h"
#include "harness/base/tier_errors.h"
#include "harness/worlds/devices/device_backend.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <unistd.h>
#include <utility>

namespace lockstep {

namespace {

constexpr char kAcceleratorsVariable[] = "LOCKSTEP_ACCELERATORS";
constexpr int kAcceleratorsMost = 16;

// The number of simulated devices of this host, for all processes to share; 0 where each process
// has its own, nothing where the variable is not such a number.
std::optional<int> accelerators_of_this_host() {
  const char* const text = std::getenv(kAcceleratorsVariable);
  if (!text || !*text) return 0;
  int count = 0;
  const char* const end = text + std::strlen(text);
  const auto read = std::from_chars(text, end, count);
  const bool is_number = read.ec == std::errc() && read.ptr == end;
  if (!is_number || count < 1 || count > kAcceleratorsMost) return {};
  return count;
}

std::string why_no_accelerator() {
  if (accelerators_of_this_host()) return "";
  return std::string(kAcceleratorsVariable) + " is '" + std::getenv(kAcceleratorsVariable) +
         "', expected a number from 1 to " + std::to_string(kAcceleratorsMost);
}

std::string host_name() {
  char name[256] = "";
  ::gethostname(name, sizeof(name) - 1);
  return name;
}

class OnSimulatedAccelerator final : public DeviceBackend {
 public:
  SeenDevices seen() const override {
    const auto count = accelerators_of_this_host();
    SeenDevices seen{.names = {},
                     .kind = "simulated device",
                     .problem = why_no_accelerator(),
                     .is_own = count == 0};
    for (int index = 0; index < std::max(1, count.value_or(0)); ++index)
      seen.names.push_back("accelerator:" + std::to_string(index) + " of " + host_name());
    if (!seen.problem.empty()) seen.names.clear();
    return seen;
  }

  c10::Device take(const DeviceAssignment& device, int) const override {
    use_simulated_accelerator(std::max(1, accelerators_of_this_host().value_or(0)));
    return accelerator_device(static_cast<c10::DeviceIndex>(device.index));
  }

  c10::intrusive_ptr<c10d::Backend> make(const Wanted& wanted) const override {
    return make_accelerator_backend(wanted.another_on_cpu());
  }

  std::string device_error() const override {
    const auto sentences = hazard_sentences();
    clear_hazards();
    if (sentences.empty()) return "";
    const auto more = sentences.size() - 1;
    return "streams of the device are not in order: " + sentences.front() +
           (more == 0 ? "" : "; and " + std::to_string(more) + " more");
  }
};

}  // namespace

KnownBackends own_backends() {
  return {{.name = "gloo", .why_not = "", .misuse = "", .device = nullptr},
          {.name = "accelerator",
           .why_not = "",
           .misuse = why_no_accelerator(),
           .device = std::make_shared<const OnSimulatedAccelerator>()}};
}

KnownBackends known_backends() {
  KnownBackends all = own_backends();
  for (auto& each : cuda_backends()) all.push_back(std::move(each));
  return all;
}

std::vector<std::string> names_of(const KnownBackends& backends) {
  std::vector<std::string> names;
  for (const auto& each : backends) names.push_back(each.name);
  return names;
}

SeenDevices devices_seen(const KnownBackend& backend) {
  if (!backend.device) return {};
  if (backend.why_not.empty()) return backend.device->seen();
  return {.names = {}, .kind = "", .problem = backend.why_not, .is_own = false};
}

const KnownBackend& backend_called(const std::string& name, const KnownBackends& backends) {
  for (const auto& each : backends)
    if (each.name == name) return each;
  throw TierError("this process cannot run on the backend '" + name + "'; it can on " +
                  joined(names_of(backends), ", "));
}

}  // namespace lockstep
