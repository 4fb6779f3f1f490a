#include "cli/output/requested_history.h"

#include "cli/output/trace_output.h"
#include "cli/usage.h"
#include "harness/history/history_file.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

namespace lockstep::cli {

namespace {

namespace fs = std::filesystem;

[[noreturn]] void cannot_write(const fs::path& path, int why) {
  throw UsageError(path.string() + ": cannot be written: " + std::strerror(why));
}

// Never over another file, and through no link.
void write_new(const fs::path& path, const std::string& bytes) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (file < 0) cannot_write(path, errno);
  size_t at = 0;
  while (at < bytes.size()) {
    const auto count = ::write(file, bytes.data() + at, bytes.size() - at);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      const int why = errno;
      ::close(file);
      ::unlink(path.c_str());
      cannot_write(path, why);
    }
    at += static_cast<size_t>(count);
  }
  ::close(file);
}

recorded::RecordedRun as_recorded(const std::string& name, const History& history) {
  recorded::RecordedRun run;
  for (const auto& rank : history.ranks())
    run.ranks.push_back({.is_there = true,
                         .number = static_cast<int>(run.ranks.size()),
                         .world = history.size(),
                         .program = name,
                         .history = rank});
  return run;
}

bool holds(Verdict::Kind kind) {
  return kind == Verdict::Kind::pass || kind == Verdict::Kind::refused;
}

}  // namespace

void RequestedHistory::on_verdict(const Turn& turn, const History& history,
                                  const Verdict& verdict) {
  const bool is_worse = !kept_ || holds(kept_->verdict);
  if (!turn.is_trial && history.size() > 0 && is_worse) {
    kept_ = {turn.c, turn.setting, turn.number, verdict.kind, history};
    of_ = turn.of;
  }
  next_.on_verdict(turn, history, verdict);
}

std::string RequestedHistory::write(const HistoryFiles& files) const {
  if (!kept_) throw UsageError("no case ran, so there is no history to write");
  const auto& [c, setting, number, verdict, history] = *kept_;
  const auto name = c.scenario + " (" + setting.subject + ", " + setting.tier + "), case " +
                    std::to_string(number) + " of " + std::to_string(of_);
  std::string text;
  if (!files.folder.empty()) {
    std::error_code error;
    fs::create_directories(files.folder, error);
    fs::permissions(files.folder, fs::perms::owner_all, error);
    for (const auto& [file, bytes] : history_files_of(c, history))
      write_new(fs::path(files.folder) / file, bytes);
    text += "histories: " + files.folder + ", of " + name + "\n";
  }
  if (!files.trace.empty()) text += traced(as_recorded(name, history), files.trace);
  return text;
}

void check_history_files(const HistoryFiles& files) {
  if (files.folder.empty()) return;
  std::error_code error;
  const auto first = std::filesystem::path(files.folder) / history_name(0);
  if (fs::exists(fs::symlink_status(first, error)))
    throw UsageError(first.string() + ": is there already; name a new folder");
}

}  // namespace lockstep::cli
