#include "harness/worlds/rank_run.h"

#include "harness/base/text.h"
#include "harness/worlds/scratch.h"
#include "harness/worlds/subject.h"

#include <cstdio>
#include <iostream>
#include <sys/statvfs.h>

namespace lockstep {

namespace {

// The scratch folder, or the disk that it is on, has no room for what the program writes.
struct ScratchFull : std::runtime_error {
  using runtime_error::runtime_error;
};

std::string scratch_full_text(const std::filesystem::path& folder, const std::string& why) {
  return why + " in " + folder.parent_path().string() +
         ", the folder for temporary files: set TMPDIR to one with room";
}

std::filesystem::path made_scratch(const std::filesystem::path& folder) {
  try {
    make_scratch(folder);
  } catch (const std::filesystem::filesystem_error& error) {
    throw ScratchFull(
        scratch_full_text(folder, "no folder could be made (" + error.code().message() + ")"));
  }
  return folder;
}

// Describes the space left on the disk of a folder, where it is less than any case takes; else "".
std::string little_room_left(const std::filesystem::path& folder) {
  constexpr uint64_t kBytesLeast = 1 << 20, kFilesLeast = 16;
  struct statvfs disk {};
  if (::statvfs(folder.c_str(), &disk) != 0) return "";
  const auto left = [](uint64_t count, const char* of_what) {
    return "it has " + with_commas(static_cast<int64_t>(count)) + of_what + " left";
  };
  if (const uint64_t bytes = uint64_t{disk.f_bavail} * disk.f_frsize; bytes < kBytesLeast)
    return left(bytes, " bytes");
  const bool counts_files = disk.f_files > 0;  // some do not
  return counts_files && disk.f_favail < kFilesLeast ? left(disk.f_favail, " files") : "";
}

// A program that threw where its scratch folder has less room than any case takes threw because of
// that: what its subject says of it is in the subject's words.
Ending with_cause(const Ending& ending, const std::filesystem::path& scratch) {
  if (ending.kind != Ending::Kind::threw) return ending;
  const auto left = little_room_left(scratch);
  if (left.empty()) return ending;
  return {Ending::Kind::overflowed, scratch_full_text(scratch, left) + " (" + ending.why + ")",
          ending.at};
}

// The name of a group in the trace.
std::string name_of_group(const std::vector<int>& ranks, int world_size) {
  if (ranks.size() == static_cast<size_t>(world_size)) return "world";
  std::vector<std::string> names;
  for (const int rank : ranks) names.push_back(std::to_string(rank));
  return "ranks " + joined(names, ",");
}

// Texts without native backtraces, whose addresses differ between runs.
template <class Program>
Ending ending_of(const Program& program) {
  try {
    program();
    return {Ending::Kind::returned, ""};
  } catch (const Unsupported& error) {
    return {Ending::Kind::refused, error.what()};
  } catch (const JournalFull& error) {
    return {Ending::Kind::overflowed, error.what()};
  } catch (const ScratchFull& error) {
    return {Ending::Kind::overflowed, error.what()};
  } catch (const c10::Error& error) {
    return {Ending::Kind::threw, error.what_without_backtrace()};
  } catch (const std::exception& error) {
    return {Ending::Kind::threw, error.what()};
  } catch (...) {
    return {Ending::Kind::threw, "something that is no std::exception"};
  }
}

}  // namespace

bool ended_well(const Ending& ending) {
  return ending.kind == Ending::Kind::returned || ending.kind == Ending::Kind::refused;
}

RankRun::RankRun(const CaseAssignment& assignment, RankRunParts parts)
    : assignment_(assignment),
      parts_(std::move(parts)),
      journal_(parts_.journal),
      injector_(assignment.world.injections, parts_.rank, journal_, parts_.planned_failures),
      sites_(journal_, parts_.call_sites),
      here_({.rank = parts_.rank,
             .size = parts_.size,
             .subject = assignment.subject,
             .device = parts_.device,
             .journal = journal_,
             .injector = injector_,
             .store = parts_.store,
             .make_group = [this](const std::vector<int>& ranks) { return group_of(ranks); },
             .make_scratch = [this] { return made_scratch(parts_.scratch); },
             .clock_ns = parts_.clock}) {
  journal_.append(FrameKind::begin, {{"protocol", kProtocol},
                                     {"rank", parts_.rank},
                                     {"world", parts_.size},
                                     {"case", assignment.hash}});
}

Ending RankRun::run() {
  const auto thrown = ending_of([&] {
    assignment_.scenario.program(assignment_.c, here_);
    const std::string device_error = parts_.device_error ? parts_.device_error() : "";
    if (!device_error.empty()) throw std::runtime_error(device_error);
  });
  const Ending ending = with_cause(thrown, parts_.scratch);
  for (const auto& log : logs_) log->settle();
  end(ending);
  std::cout.flush();
  std::fflush(nullptr);
  return ending;
}

// A full journal has no room for an ending; its flag says so.
void RankRun::end(const Ending& ending) {
  try {
    auto timed = ending;
    timed.at.ns = TapLog::monotonic_ns();
    journal_.finish(timed);
  } catch (const JournalFull&) {
  }
}

size_t RankRun::pending_collectives() const {
  size_t pending = 0;
  for (const auto& log : logs_) pending += log->pending();
  return pending;
}

c10::intrusive_ptr<c10d::ProcessGroup> RankRun::group_of(const std::vector<int>& ranks) {
  logs_.push_back(std::make_shared<TapLog>(name_of_group(ranks, parts_.size), journal_, injector_,
                                           sites_, parts_.clock));
  return parts_.make_group(ranks, logs_.back());
}

}  // namespace lockstep
