#include "recorder/cpp/rank_recording.h"

#include "harness/rank/tap.h"

#include <c10/util/Exception.h>
#include <torch/version.h>

#include <cstdlib>
#include <fstream>

namespace lockstep {

namespace {

// The launcher's number: torchrun's, Slurm's or Open MPI's; else `otherwise`.
int number_of(std::initializer_list<const char*> variables, int otherwise) {
  for (const char* const name : variables)
    if (const char* const text = std::getenv(name)) return std::atoi(text);
  return otherwise;
}

// Names this machine since it was started: ranks with one name can compare their times.
std::string clock_name() {
  std::string name;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), name);
  return name;
}

std::string program_name() {
  std::string name;
  std::getline(std::ifstream("/proc/self/comm"), name);
  return name;
}

int rank_in(const c10d::ProcessGroup& group) {
  return number_of({"RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK"}, group.getRank());
}

}  // namespace

RankRecording::RankRecording(const std::filesystem::path& folder, const c10d::ProcessGroup& group,
                             int perturbed)
    : file(folder, rank_in(group)),
      injector({}, rank_in(group), file),
      sites(file, /*is_on=*/false) {
  const int world =
      number_of({"WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE"}, group.getSize());
  Json begin{{"protocol", kProtocol},          {"rank", rank_in(group)}, {"world", world},
             {"writer", "lockstep::Recorder"}, {"torch", TORCH_VERSION}, {"clock", clock_name()},
             {"program", program_name()}};
  if (perturbed > 0) begin["perturbed"] = perturbed;
  file.append(FrameKind::begin, begin);
  fact(
      "process group",
      {{"rank", group.getRank()}, {"world", group.getSize()}, {"backend", group.getBackendName()}});
}

void RankRecording::span(const std::string& name, int64_t from_ns) {
  file.append(FrameKind::span, {{"name", name}, {"from", from_ns}, {"ns", TapLog::monotonic_ns()}});
}

void RankRecording::fact(const std::string& name, const Json& values) {
  file.append(FrameKind::fact, {{"name", name}, {"values", values}});
}

void RankRecording::at(const std::string& where) {
  if (where == phase) return;
  moment.phase = phase = where;
  file.append_text(FrameKind::moment, header_of(moment));
}

void RankRecording::guarded(const std::string& what, const std::function<void()>& record) noexcept {
  try {
    record();
  } catch (const c10::Error& error) {
    leave_out(what, error.what_without_backtrace());
  } catch (const std::exception& error) {
    leave_out(what, error.what());
  } catch (...) {
    leave_out(what, "something that is no std::exception");
  }
}

void RankRecording::leave_out(const std::string& what, const std::string& because) noexcept {
  constexpr size_t kBytesMost = 500;
  try {
    {
      const std::lock_guard lock(mutex_);
      if (!left_out_.insert(what).second) return;
    }
    fact("not recorded", {{"what", what}, {"because", because.substr(0, kBytesMost)}});
  } catch (const std::exception&) {
    // There is no memory for it.
  }
}

}  // namespace lockstep
