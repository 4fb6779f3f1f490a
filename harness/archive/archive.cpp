#include "harness/archive/archive.h"

#include "harness/base/characters.h"
#include "harness/base/table_fields.h"
#include "harness/base/text.h"
#include "harness/cases/shown_fields.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <random>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace lockstep {

namespace {

namespace fs = std::filesystem;
constexpr size_t kProbeBytes = 64 << 10;
constexpr int kNameAttempts = 100;

[[noreturn]] void give_up(const fs::path& path, int error) {
  throw ArchiveError(path.string() + ": " + std::strerror(error) +
                     "; a run must be able to write there (--out FOLDER names another one)");
}

void write_all(int file, std::string_view text, const fs::path& path) {
  while (!text.empty()) {
    const ssize_t written = ::write(file, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) give_up(path, errno);
    text.remove_prefix(static_cast<size_t>(written));
  }
}

int open_for_writing(const fs::path& path, int how) {
  return ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | how, 0644);
}

// A file under a name that no other run uses at the same time, until it replaces `path`. Its
// destructor removes it if it did not.
class UnfinishedFile {
 public:
  explicit UnfinishedFile(const fs::path& path) : path_(path) {
    for (int attempt = 0; file_ < 0 && attempt < kNameAttempts; ++attempt) {
      name_ = path.string() + "." + std::to_string(std::random_device()()) + ".unfinished";
      file_ = open_for_writing(name_, O_EXCL);
      if (file_ < 0 && errno != EEXIST) break;
    }
    if (file_ < 0) give_up(path_, errno);
  }
  UnfinishedFile(const UnfinishedFile&) = delete;
  UnfinishedFile& operator=(const UnfinishedFile&) = delete;

  ~UnfinishedFile() {
    if (file_ >= 0) ::close(file_);
    if (!is_in_place_) ::unlink(name_.c_str());
  }

  void write(std::string_view text) { write_all(file_, text, path_); }

  void put_in_place() {
    // A full disk may be noticed only here.
    if (::close(std::exchange(file_, -1)) != 0) give_up(path_, errno);
    if (::rename(name_.c_str(), path_.c_str()) != 0) give_up(path_, errno);
    is_in_place_ = true;
  }

 private:
  const fs::path path_;
  fs::path name_;
  int file_ = -1;
  bool is_in_place_ = false;
};

void write_file(const fs::path& path, const std::string& text) {
  UnfinishedFile file(path);
  file.write(text);
  file.put_in_place();
}

void make_folder(const fs::path& path, mode_t mode) {
  if (::mkdir(path.c_str(), mode) == 0 || (errno == EEXIST && fs::is_directory(path))) return;
  give_up(path, errno);
}

void make_parents(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) give_up(path, error.value());
}

std::string new_name() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  ::gmtime_r(&now, &utc);
  char text[40];
  const unsigned id = std::random_device()() & 0xffff;
  std::snprintf(text, sizeof(text), "%04d%02d%02d-%02d%02d%02d-%04x", utc.tm_year + 1900,
                utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec, id);
  return text;
}

fs::path make_run_folder(const fs::path& runs) {
  for (int attempt = 0; attempt < kNameAttempts; ++attempt) {
    const fs::path folder = runs / new_name();
    if (::mkdir(folder.c_str(), 0700) == 0) return folder;
    if (errno != EEXIST) give_up(folder, errno);
  }
  give_up(runs, EEXIST);
}

// Made under another name first: a link cannot be overwritten, but a rename can replace it.
void point_latest_to(const fs::path& folder) {
  const fs::path link = folder.parent_path() / "latest";
  const fs::path unfinished = folder.parent_path() / (folder.filename().string() + ".link");
  if (::symlink(folder.filename().c_str(), unfinished.c_str()) != 0) give_up(unfinished, errno);
  if (::rename(unfinished.c_str(), link.c_str()) == 0) return;
  const int error = errno;
  ::unlink(unfinished.c_str());
  give_up(link, error);
}

std::string short_name(const Case& c) {
  return c.scenario + "-" + hash_of(c).substr(0, 6);
}

Json event(const char* what, const Turn& turn) {
  return {{"event", what},
          {"scenario", turn.c.scenario},
          {"subject", turn.setting.subject},
          {"tier", turn.setting.tier},
          {"backend", turn.setting.backend},
          {"number", turn.number},
          {"of", turn.of},
          {"run", turn.run},
          {"hash", hash_of(turn.c)}};
}

}  // namespace

Archive::Archive(fs::path root) : root_(std::move(root)) {
  make_parents(root_);
  make_folder(root_ / "runs", 0700);
  folder_ = make_run_folder(root_ / "runs");
  write_file(folder_ / "probe", std::string(kProbeBytes, '\n'));
  ::unlink((folder_ / "probe").c_str());
  events_ = open_for_writing(folder_ / "events.jsonl", O_APPEND);
  if (events_ < 0) give_up(folder_ / "events.jsonl", errno);
  ::flock(events_, LOCK_EX | LOCK_NB);  // held as long as the run lives: Note [Cut off]
  point_latest_to(folder_);
}

Archive::~Archive() {
  ::close(events_);
}

template <class Write>
bool Archive::attempt(const Write& write) {
  try {
    write();
    return true;
  } catch (const ArchiveError& error) {
    if (loss_.empty()) loss_ = error.what();
    return false;
  }
}

void Archive::append(const Json& line) {
  if (!lines_are_whole_) return;
  // Text of an exception that is not UTF-8 must not end the run.
  const auto text = line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  lines_are_whole_ = attempt([&] { write_all(events_, text, folder_ / "events.jsonl"); });
}

void Archive::on_case(const Turn& turn) {
  Json line = event(turn.is_trial ? "trial" : "case", turn);
  line["case"] = turn.c.value;
  append(line);
}

void Archive::on_verdict(const Turn& turn, const History& history, const Verdict& verdict) {
  Json line = event(turn.is_trial ? "trial_verdict" : "verdict", turn);
  line["verdict"] = name_of(verdict.kind);
  if (!verdict.findings.empty()) {
    line["signature"] = verdict.signature();
    line["text"] = verdict.findings.front().diagnosis;
    line["details"] = to_json(verdict.findings.front().details);
  }
  if (history.size() > 0) line["history"] = hash_of(history);
  append(line);
}

void Archive::on_result(const Result& result) {
  Json line{{"event", "result"},
            {"scenario", result.scenario},
            {"subject", result.setting.subject},
            {"tier", result.setting.tier},
            {"backend", result.setting.backend},
            {"result", name_of(result.kind)},
            {"judged", result.judged}};
  if (!result.signatures.empty()) line["signatures"] = result.signatures;
  append(line);
}

void Archive::write(const std::string& name, const std::string& text) {
  attempt([&] { write_file(folder_ / name, text); });
}

void Archive::keep(const KeptHistory& kept) {
  const auto files = files_of(kept);
  if (files.empty() || histories_ == kHistoriesMost) return;
  ++histories_;
  attempt([&] { write_history(kept, files); });
}

void Archive::write_history(const KeptHistory& kept,
                            const std::vector<std::pair<std::string, std::string>>& files) {
  auto where = kept.setting.subject + "-" + kept.setting.tier + "-" + kept.setting.backend;
  std::replace(where.begin(), where.end(), '/', '-');  // of a file
  // This does not make the run's own folder: if that has been taken away, the user learns so.
  make_folder(folder_ / "histories", 0700);
  const auto folder = folder_ / "histories" / (short_name(kept.c) + "-" + where);
  make_folder(folder, 0700);
  for (const auto& [name, bytes] : files) write_file(folder / name, bytes);
}

fs::path Archive::file_of(const Case& c) const {
  return root_ / "failures" / (short_name(c) + ".json");
}

fs::path Archive::save_failure(const Case& c, const std::string& file) {
  const auto path = file_of(c);
  const bool is_saved = attempt([&] {
    make_folder(root_ / "failures", 0755);
    write_file(path, file);
  });
  return is_saved ? path : fs::path();
}

std::optional<Origin> Archive::origin_of(const Scenario& scenario, const Case& c) const {
  try {
    return written_out(scenario, read_case_file(file_of(c))).origin;
  } catch (const FieldError&) {
    return {};
  }
}

fs::path Archive::logs_for(const Case& c, const Setting& setting) const {
  auto subject = setting.subject == Setting().subject ? "" : "-" + setting.subject;
  std::replace(subject.begin(), subject.end(), '/', '-');  // of a file
  return folder_ / "logs" / (short_name(c) + subject);
}

}  // namespace lockstep
