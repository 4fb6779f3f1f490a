#include "harness/world/backends.h"

#include "harness/accelerator/accelerator.h"
#include "harness/accelerator/backend.h"
#include "harness/core/text.h"
#include "harness/core/tier.h"
#include "harness/world/device_backend.h"

#include <utility>

namespace lockstep {

namespace {

class OnSimulatedAccelerator final : public DeviceBackend {
 public:
  c10::Device device_of(int, int) const override {
    use_simulated_accelerator(1);
    return accelerator_device();
  }

  c10::intrusive_ptr<c10d::Backend> make(const Wanted& wanted) const override {
    return make_accelerator_backend(wanted.another_on_cpu());
  }

  std::string objection() const override {
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
  return {{.name = "gloo", .why_not = "", .device = nullptr},
          {.name = "accelerator",
           .why_not = "",
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

const KnownBackend& backend_called(const std::string& name, const KnownBackends& backends) {
  for (const auto& each : backends)
    if (each.name == name) return each;
  throw TierError("this process cannot play on the backend '" + name + "'; it can on " +
                  joined(names_of(backends), ", "));
}

}  // namespace lockstep
