#include "harness/worlds/forked/workplace.h"

#include "harness/base/text.h"
#include "harness/cases/tier.h"
#include "harness/worlds/ambient.h"
#include "harness/worlds/devices/device_backend.h"
#include "harness/worlds/gloo/gloo.h"

#include <cstdlib>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

namespace lockstep {

namespace {

// The time for the threads of one process to write their stacks.
constexpr std::chrono::milliseconds kStackPatience{200};

// Large simulated worlds have two output files for each rank.
void allow_many_descriptors() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

Workplace::Workplace(const std::vector<Scenario>& scenarios, const Subjects& subjects,
                     const ForkedOptions& options, std::shared_ptr<LaneMemory> memory)
    : scenarios_(scenarios), subjects_(subjects), options_(options), memory_(std::move(memory)) {}

void Workplace::prepare() {
  cure_gloo_stalls(options_.cure_gloo_stalls);
  const Descriptor nothing(checked(open("/dev/null", O_RDWR | O_CLOEXEC), "/dev/null"));
  checked(dup2(nothing.number(), STDIN_FILENO), "standard input");
  allow_many_descriptors();
  // Failures of a case's ranks, injected ones included, are not for the launcher of this program.
  ::unsetenv("TORCHELASTIC_ERROR_FILE");
  answer_on(memory_->stacks);
  for (const auto& each : options_.backends)
    if (each.device && each.why_not.empty()) each.device->before_forks();
  warm_up_for_forks();
  require_one_intra_op_thread();
  alone_.emplace();
  scratch_.emplace(options_.scratch.empty() ? std::filesystem::temp_directory_path()
                                            : options_.scratch);
}

void Workplace::remove_scratch() const {
  if (scratch_) scratch_->remove();
}

const Scenario& Workplace::scenario(const std::string& name) const {
  std::vector<std::string> names;
  for (const auto& known : scenarios_) {
    if (known.name == name) return known;
    names.push_back(known.name);
  }
  throw TierError("this lane knows no scenario '" + name + "'" + did_you_mean(name, names));
}

CaseAssignment Workplace::assignment_of(const CaseRequest& request) const {
  return {request,
          {request.scenario, Json::parse(request.case_value)},
          scenario(request.scenario),
          subject(request.subject)};
}

const DeviceBackend* Workplace::device_backend(const std::string& name) const {
  return backend_called(name, options_.backends).device.get();
}

GroupWatch Workplace::watch(std::chrono::steady_clock::time_point deadline, int stop_descriptor,
                            StacksByRank& stacks) const {
  return {.deadline = deadline,
          .grace = options_.grace,
          .stop_descriptor = stop_descriptor,
          .on_bad_end = [this] { memory_->exit_barrier.call_off(); },
          .on_deadline =
              [this, &stacks](const auto& late) {
                for (const auto& [index, pid] : late)
                  stacks[index] = stacks_of(pid, memory_->stacks, kStackPatience);
              }};
}

void Workplace::add_stacks_of_crashes(const std::vector<ChildEnd>& ends,
                                      StacksByRank& stacks) const {
  for (size_t index = 0; index < ends.size(); ++index) {
    if (ends[index].kind != ChildEnd::Kind::signalled) continue;
    if (auto crash = crash_in(memory_->crashes[index]))
      stacks[static_cast<int>(index)] = {std::move(*crash)};
  }
}

}  // namespace lockstep
