#include "harness/archive/kept_histories.h"

#include "harness/base/parse_json.h"
#include "harness/base/read_file.h"
#include "harness/history/frames.h"
#include "harness/history/history_file.h"

#include <set>

namespace lockstep {

namespace {

namespace fs = std::filesystem;
constexpr char kAbout[] = "case.json";

KeptHistory about(const fs::path& path) {
  const auto file = path.string();
  const auto json = parse_json(read_file(path), file);
  try {
    const auto name = json.at("verdict").get<std::string>();
    const auto verdict = value_of_word<Verdict::Kind>(name);
    if (!verdict) throw FieldError(file + ": no verdict is named '" + name + "'");
    return {.c = {json.at("scenario").get<std::string>(), json.at("value")},
            .setting = {json.at("subject").get<std::string>(), json.at("tier").get<std::string>(),
                        json.at("backend").get<std::string>()},
            .number = json.at("number").get<int>(),
            .verdict = *verdict,
            .history = {}};
  } catch (const Json::exception& error) {
    throw FieldError(file + ": " + error.what());
  }
}

KeptHistory read_history(const fs::path& folder) {
  auto kept = about(folder / kAbout);
  std::vector<RankHistory> ranks;
  std::error_code none;
  for (int rank = 0; fs::exists(folder / history_name(rank), none); ++rank) {
    const auto path = folder / history_name(rank);
    const auto bytes = read_file(path);
    ranks.push_back(
        rank_history(read_frames(reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()),
                     path.string()));
  }
  kept.history = History(std::move(ranks));
  return kept;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> files_of(const KeptHistory& kept) {
  const Json json{{"scenario", kept.c.scenario}, {"subject", kept.setting.subject},
                  {"tier", kept.setting.tier},   {"backend", kept.setting.backend},
                  {"number", kept.number},       {"verdict", name_of(kept.verdict)},
                  {"value", kept.c.value}};
  std::vector<std::pair<std::string, std::string>> files{{kAbout, json.dump(2) + "\n"}};
  size_t bytes = 0;
  for (auto& file : history_files_of(kept.c, kept.history)) {
    bytes += file.second.size();
    files.push_back(std::move(file));
  }
  const bool is_pass = kept.verdict == Verdict::Kind::pass;
  return bytes > (is_pass ? kPassingHistoryBytesMost : kHistoryBytesMost)
             ? std::vector<std::pair<std::string, std::string>>()
             : files;
}

std::vector<KeptHistory> read_histories(const fs::path& folder) {
  std::error_code none;
  std::set<fs::path> folders;
  for (const auto& entry : fs::directory_iterator(folder, none))
    if (fs::exists(entry.path() / kAbout, none)) folders.insert(entry.path());
  std::vector<KeptHistory> all;
  for (const auto& each : folders) {
    if (all.size() == kHistoriesMost) break;
    all.push_back(read_history(each));
  }
  return all;
}

}  // namespace lockstep
