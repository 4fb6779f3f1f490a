#include "harness/accelerator/devices.h"

#include "harness/accelerator/ledger.h"

#include <c10/core/ScalarType.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace lockstep::accelerator {

namespace {

constexpr c10::StreamId kPoolSize = 32;

std::atomic<int> known_devices{0};
thread_local c10::DeviceIndex current_device = 0;
thread_local std::vector<c10::StreamId> current_streams;

c10::DeviceIndex index_of(c10::DeviceIndex device) {
  const c10::DeviceIndex index = device < 0 ? current_device : device;
  TORCH_CHECK(index < device_count(), "there is no accelerator:", static_cast<int>(index), ": ",
              device_count(), " simulated device(s) are in use");
  return index;
}

c10::Stream stream_with(c10::DeviceIndex device, c10::StreamId id) {
  return c10::Stream(c10::Stream::UNSAFE, c10::Device(c10::DeviceType::PrivateUse1, device), id);
}

c10::StreamId& current_id(c10::DeviceIndex device) {
  const auto index = static_cast<std::size_t>(device);
  if (current_streams.size() <= index) current_streams.resize(index + 1, 0);
  return current_streams[index];
}

// Pending work on threads of the host, by the stream that it belongs to.
class Backgrounds {
 public:
  using List = std::vector<std::shared_ptr<const Background>>;

  static Backgrounds& instance() {
    static auto* const all = new Backgrounds;
    return *all;
  }

  void add(const c10::Stream& stream, Background work) {
    const std::lock_guard lock(mutex_);
    List& list = by_stream_[stream];
    std::erase_if(list, [](const auto& each) { return each->is_over(); });
    list.push_back(std::make_shared<const Background>(std::move(work)));
  }

  List on(const c10::Stream& stream) {
    const std::lock_guard lock(mutex_);
    const auto found = by_stream_.find(stream);
    return found == by_stream_.end() ? List() : found->second;
  }

  List on_device(c10::DeviceIndex device) {
    const std::lock_guard lock(mutex_);
    List all;
    for (const auto& [stream, list] : by_stream_) {
      if (stream.device_index() == device) all.insert(all.end(), list.begin(), list.end());
    }
    return all;
  }

 private:
  std::mutex mutex_;
  std::unordered_map<c10::Stream, List> by_stream_;
};

void finish(const Backgrounds::List& list) {
  for (const auto& each : list) each->finish();
}

bool are_over(const Backgrounds::List& list) {
  return std::all_of(list.begin(), list.end(), [](const auto& each) { return each->is_over(); });
}

// The object that a void* of c10::Event points to.
struct Recorded {
  Clock clock;
  Backgrounds::List under_way;
  std::chrono::steady_clock::time_point time;
};

const Recorded& recorded(void* event) {
  return *static_cast<const Recorded*>(event);
}

// Ids beyond the pool's are for callers that request a stream of their own.
std::atomic<c10::StreamId> next_own{kPoolSize + 1};
std::mutex pool_mutex;
std::map<c10::DeviceIndex, c10::StreamId> next_in_pool;

}  // namespace

int device_count() {
  return known_devices;
}

void set_device_count(int devices) {
  known_devices = devices;
}

c10::Stream current_stream(c10::DeviceIndex device) {
  const c10::DeviceIndex index = index_of(device);
  return stream_with(index, current_id(index));
}

c10::Stream stream_of_its_own(c10::DeviceIndex device) {
  return stream_with(index_of(device), next_own++);
}

void run_in_background(const c10::Stream& stream, Background work) {
  Backgrounds::instance().add(stream, std::move(work));
}

void finish_background_of(const c10::Stream& stream) {
  finish(Backgrounds::instance().on(stream));
}

c10::Device Devices::exchangeDevice(c10::Device device) const {
  const c10::Device before = getDevice();
  setDevice(device);
  return before;
}

c10::Device Devices::getDevice() const {
  return {c10::DeviceType::PrivateUse1, current_device};
}

void Devices::setDevice(c10::Device device) const {
  TORCH_CHECK(device.is_privateuseone(), "expected a device 'accelerator', got ", device);
  current_device = index_of(device.index());
}

void Devices::uncheckedSetDevice(c10::Device device) const noexcept {
  if (device.index() >= 0) current_device = device.index();
}

c10::DeviceIndex Devices::deviceCount() const noexcept {
  return static_cast<c10::DeviceIndex>(known_devices.load());
}

c10::DeviceCapability Devices::getDeviceCapability(c10::Device) const {
  return {};
}

c10::Stream Devices::getStream(c10::Device device) const {
  return current_stream(device.index());
}

c10::Stream Devices::getDefaultStream(c10::Device device) const {
  return stream_with(index_of(device.index()), 0);
}

c10::Stream Devices::getStreamFromGlobalPool(c10::Device device, bool) const {
  const c10::DeviceIndex index = index_of(device.index());
  const std::lock_guard lock(pool_mutex);
  return stream_with(index, 1 + next_in_pool[index]++ % kPoolSize);
}

c10::Stream Devices::getNewStream(c10::Device device, int priority) const {
  return getStreamFromGlobalPool(device, priority < 0);
}

c10::Stream Devices::exchangeStream(c10::Stream stream) const {
  const c10::Stream before = current_stream(stream.device_index());
  current_id(stream.device_index()) = stream.id();
  return before;
}

bool Devices::queryStream(const c10::Stream& stream) const {
  if (!are_over(Backgrounds::instance().on(stream))) return false;
  Ledger& ledger = Ledger::instance();
  ledger.host_knows(ledger.record(stream));
  return true;
}

void Devices::synchronizeStream(const c10::Stream& stream) const {
  finish(Backgrounds::instance().on(stream));
  Ledger& ledger = Ledger::instance();
  ledger.host_knows(ledger.record(stream));
  ledger.host_waited("stream synchronize");
}

void Devices::synchronizeDevice(c10::DeviceIndex device) const {
  const c10::DeviceIndex index = index_of(device);
  finish(Backgrounds::instance().on_device(index));
  Ledger::instance().host_knows_device(index);
  Ledger::instance().host_waited("device synchronize");
}

void Devices::record(void** event, const c10::Stream& stream, c10::DeviceIndex device,
                     c10::EventFlag) const {
  TORCH_CHECK(device == -1 || device == stream.device_index(), "an event of device ",
              static_cast<int>(device), " cannot be recorded on ", name_of(stream));
  if (*event == nullptr) *event = new Recorded;
  *static_cast<Recorded*>(*event) = {.clock = Ledger::instance().record(stream),
                                     .under_way = Backgrounds::instance().on(stream),
                                     .time = std::chrono::steady_clock::now()};
}

void Devices::block(void* event, const c10::Stream& stream) const {
  if (event == nullptr) return;
  finish(recorded(event).under_way);
  Ledger::instance().wait(stream, recorded(event).clock);
}

bool Devices::queryEvent(void* event) const {
  if (event == nullptr) return true;
  if (!are_over(recorded(event).under_way)) return false;
  Ledger::instance().host_knows(recorded(event).clock);
  return true;
}

void Devices::synchronizeEvent(void* event) const {
  if (event == nullptr) return;
  finish(recorded(event).under_way);
  Ledger::instance().host_knows(recorded(event).clock);
  Ledger::instance().host_waited("event synchronize");
}

double Devices::elapsedTime(void* event, void* later, c10::DeviceIndex) const {
  const std::chrono::duration<double, std::milli> passed =
      recorded(later).time - recorded(event).time;
  return passed.count();
}

void Devices::destroyEvent(void* event, c10::DeviceIndex) const noexcept {
  delete static_cast<Recorded*>(event);
}

void Devices::recordDataPtrOnStream(const c10::DataPtr& data, const c10::Stream& stream) const {
  if (data.get() != nullptr) Ledger::instance().use_on(data.get(), stream);
}

}  // namespace lockstep::accelerator
