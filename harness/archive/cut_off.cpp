#include "harness/archive/cut_off.h"

#include <algorithm>
#include <fcntl.h>
#include <fstream>
#include <string_view>
#include <sys/file.h>
#include <tuple>
#include <unistd.h>

namespace lockstep {

namespace {

namespace fs = std::filesystem;
constexpr size_t kRunsMost = 20;

// The newest first: their names begin with the time, in seconds, and in one second several may have
// begun.
std::vector<fs::path> runs_below(const fs::path& root) {
  constexpr size_t kTime = std::string_view("20261123-040335").size();
  std::vector<std::tuple<std::string, fs::file_time_type, fs::path>> begun;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(root / "runs", none))
    if (!entry.is_symlink(none))
      begun.emplace_back(entry.path().filename().string().substr(0, kTime),
                         fs::last_write_time(entry.path() / "events.jsonl", none), entry.path());
  std::sort(begun.rbegin(), begun.rend());
  std::vector<fs::path> folders;
  for (auto& [time, written, folder] : begun)
    if (folders.size() < kRunsMost) folders.push_back(std::move(folder));
  return folders;
}

bool is_running(const fs::path& events) {
  const int file = ::open(events.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return false;
  const bool is_locked = ::flock(file, LOCK_SH | LOCK_NB) != 0;
  ::close(file);
  return is_locked;
}

// The part that a line before a run of a case and the line after it have in common.
std::string key_of(const Json& line) {
  std::string key;
  for (const char* field : {"scenario", "subject", "tier", "backend", "hash", "number", "run"})
    key += line.at(field).dump() + "\n";
  return key;
}

CutOff::Unfinished unfinished_of(const Json& line) {
  return {.c = {line.at("scenario").get<std::string>(), line.at("case")},
          .setting = {line.at("subject").get<std::string>(), line.at("tier").get<std::string>(),
                      line.at("backend").get<std::string>()},
          .number = line.at("number").get<int>(),
          .of = line.at("of").get<int>()};
}

struct Begun {
  std::string key;
  CutOff::Unfinished what;
};

// False at the end of the run.
bool take(const Json& line, std::vector<Begun>& begun) {
  const auto event = line.at("event").get<std::string>();
  if (event == "end") return false;
  const bool begins = event == "case" || event == "trial";
  if (!begins && event != "verdict" && event != "trial_verdict") return true;
  const auto key = key_of(line);
  if (begins) begun.push_back({key, unfinished_of(line)});
  const auto same =
      std::find_if(begun.begin(), begun.end(), [&](const Begun& one) { return one.key == key; });
  if (!begins && same != begun.end()) begun.erase(same);
  return true;
}

}  // namespace

fs::path newest_run(const fs::path& root) {
  const auto folders = runs_below(root);
  return folders.empty() ? fs::path() : folders.front();
}

std::optional<CutOff> read_cut_off(const fs::path& folder) {
  const auto events = folder / "events.jsonl";
  std::error_code none;
  if (!fs::is_regular_file(events, none) || is_running(events)) return {};
  std::ifstream file(events);
  std::vector<Begun> begun;
  for (std::string text; std::getline(file, text);) {
    // The last line may be half of one.
    const auto line = Json::parse(text, nullptr, /*allow_exceptions=*/false);
    try {
      if (!line.is_discarded() && !take(line, begun)) return {};
    } catch (const Json::exception&) {
      continue;  // not a line of ours
    }
  }
  CutOff out{.folder = folder, .cases = {}};
  for (auto& one : begun)
    if (!one.what.c.scenario.starts_with("canary.")) out.cases.push_back(std::move(one.what));
  return out.cases.empty() ? std::nullopt : std::optional(std::move(out));
}

std::optional<CutOff> newest_cut_off(const fs::path& root) {
  for (const auto& folder : runs_below(root))
    if (auto cut_off = read_cut_off(folder)) return cut_off;
  return {};
}

}  // namespace lockstep
