#include "harness/engine/archive.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <random>
#include <sys/stat.h>
#include <unistd.h>

namespace lockstep {

namespace {

namespace fs = std::filesystem;
constexpr size_t kProbeBytes = 64 << 10;
constexpr int kNameAttempts = 100;

[[noreturn]] void give_up(const fs::path& path, int error) {
  throw ArchiveError(path.string() + ": " + std::strerror(error) +
                     "; a run must be able to write there (--out DIR names another folder)");
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
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | how, 0644);
  if (file < 0) give_up(path, errno);
  return file;
}

void write_file(const fs::path& path, const std::string& text) {
  const fs::path unfinished = path.string() + ".unfinished";
  const int file = open_for_writing(unfinished, O_TRUNC);
  try {
    write_all(file, text, path);
  } catch (...) {
    ::close(file);
    ::unlink(unfinished.c_str());
    throw;
  }
  // A full disk may show only here.
  if (::close(file) != 0 || ::rename(unfinished.c_str(), path.c_str()) != 0) give_up(path, errno);
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

// Made under another name first: a link cannot be overwritten, but it can be renamed over.
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
          {"play", turn.play},
          {"hash", hash_of(turn.c)}};
}

}  // namespace

Archive::Archive(fs::path root) : root_(std::move(root)) {
  make_parents(root_);
  make_folder(root_ / "runs", 0700);
  folder_ = make_run_folder(root_ / "runs");
  write("probe", std::string(kProbeBytes, '\n'));
  ::unlink((folder_ / "probe").c_str());
  events_ = open_for_writing(folder_ / "events.jsonl", O_APPEND);
  point_latest_to(folder_);
}

Archive::~Archive() {
  ::close(events_);
}

void Archive::append(const Json& line) {
  // What is no UTF-8 in an exception's text must not end the run.
  const auto text = line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  write_all(events_, text, folder_ / "events.jsonl");
}

void Archive::on_case(const Turn& turn) {
  Json line = event("case", turn);
  line["case"] = turn.c.value;
  append(line);
}

void Archive::on_verdict(const Turn& turn, const History& history, const Verdict& verdict) {
  Json line = event("verdict", turn);
  line["verdict"] = name_of(verdict.kind);
  if (!verdict.findings.empty()) {
    line["signature"] = verdict.signature();
    line["text"] = verdict.findings.front().text;
  }
  if (history.size() > 0) line["history"] = hash_of(history);
  append(line);
}

void Archive::on_result(const Result& result) {
  append({{"event", "result"},
          {"scenario", result.scenario},
          {"subject", result.setting.subject},
          {"tier", result.setting.tier},
          {"backend", result.setting.backend},
          {"result", name_of(result.kind)},
          {"judged", result.judged}});
}

void Archive::write(const std::string& name, const std::string& text) {
  write_file(folder_ / name, text);
}

fs::path Archive::save_failure(const Case& c) {
  make_folder(root_ / "failures", 0755);
  const fs::path path = root_ / "failures" / (short_name(c) + ".json");
  write_file(path, case_file(c));
  return path;
}

fs::path Archive::logs_for(const Case& c, const Setting& setting) const {
  const auto subject = setting.subject == Setting().subject ? "" : "-" + setting.subject;
  return folder_ / "logs" / (short_name(c) + subject);
}

namespace {

Case parsed(const Scenario& scenario, const Case& c, const fs::path& file) {
  try {
    return scenario.parse(c.value);
  } catch (const FieldError& error) {
    throw FieldError(file.string() + ": " + error.what() +
                     "; a run plays archived failures first: mend this file or delete it");
  }
}

}  // namespace

std::vector<Case> archived_failures(const fs::path& root, const Scenario& scenario) {
  std::vector<fs::path> files;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(root / "failures", none))
    if (entry.path().extension() == ".json" &&
        entry.path().filename().string().starts_with(scenario.name + "-"))
      files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  std::vector<Case> cases;
  for (const auto& file : files)
    if (const Case c = read_case_file(file); c.scenario == scenario.name)
      cases.push_back(parsed(scenario, c, file));
  return cases;
}

}  // namespace lockstep
