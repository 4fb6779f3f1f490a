#include "harness/engine/evidence.h"

#include "harness/core/text.h"

#include <algorithm>
#include <fstream>
#include <sstream>

namespace lockstep {

namespace {

namespace fs = std::filesystem;
constexpr std::streamoff kTailBytes = 2048;
constexpr size_t kTailLines = 12;

std::string tail_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary | std::ios::ate);
  if (!in) return "";
  const std::streamoff size = in.tellg();
  in.seekg(std::max<std::streamoff>(0, size - kTailBytes));
  std::stringstream text;
  text << in.rdbuf();
  auto lines = split(text.str(), '\n');
  while (!lines.empty() && lines.back().empty()) lines.pop_back();
  if (size > kTailBytes && lines.size() > 1) lines.erase(lines.begin());  // begins in mid-line
  if (lines.size() > kTailLines) lines.erase(lines.begin(), lines.end() - kTailLines);
  return joined(lines, "\n");
}

// Where the rank's own thread stood: the innermost frame, and then those of known files.
std::string place_of(const fs::path& stacks, int rank) {
  std::ifstream in(stacks);
  std::vector<std::string> first, own;
  std::vector<std::string>* thread = nullptr;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("thread ")) {
      const bool is_ranks = line.ends_with(" rank " + std::to_string(rank));
      thread = is_ranks ? &own : first.empty() ? &first : nullptr;
    } else if (thread && (thread->empty() || line.find(" at ") != std::string::npos)) {
      thread->push_back(line.substr(line.find_first_not_of(' ')));
    }
  }
  auto& lines = own.empty() ? first : own;
  lines.resize(std::min(lines.size(), kTailLines));
  return joined(lines, "\n");
}

std::vector<std::string> headlines_of(const fs::path& call_sites) {
  std::ifstream in(call_sites);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);)
    if (!line.starts_with(' ')) lines.push_back(line);
  return lines;
}

bool any_ended_by_itself(const History& history) {
  const auto& ranks = history.ranks();
  return std::any_of(ranks.begin(), ranks.end(), [](const RankHistory& rank) {
    return rank.ending.kind == Ending::Kind::signalled ||
           rank.ending.kind == Ending::Kind::exited || rank.ending.kind == Ending::Kind::threw;
  });
}

// In a collective that is not done it may well wait for the one that is to blame.
bool waits_for_others(const History& history, int rank) {
  const auto all = history.collectives(rank);
  return !all.empty() && !all.back().done;
}

}  // namespace

int rank_to_blame(const History& history) {
  for (int rank = 0; rank < history.size(); ++rank)
    if (history.ranks()[static_cast<size_t>(rank)].ending.kind == Ending::Kind::stuck &&
        !waits_for_others(history, rank) && !any_ended_by_itself(history))
      return rank;
  for (const auto kind :
       {Ending::Kind::signalled, Ending::Kind::exited, Ending::Kind::threw, Ending::Kind::stuck})
    for (int rank = 0; rank < history.size(); ++rank)
      if (history.ranks()[static_cast<size_t>(rank)].ending.kind == kind) return rank;
  return 0;
}

Evidence keep_evidence(Tier& tier, const fs::path& folder, const History& history) {
  try {
    tier.keep_output(folder, history);
  } catch (const TierError&) {
    return {};
  }
  std::error_code none;
  if (fs::is_empty(folder, none) || none) {
    fs::remove(folder, none);
    return {};
  }
  const int rank = rank_to_blame(history);
  auto call_sites = headlines_of(folder / "call_sites.txt");
  const auto stacks = folder / ("rank" + std::to_string(rank) + ".stacks");
  if (auto place = place_of(stacks, rank); !place.empty())
    return {folder, rank, std::move(place), stacks, std::move(call_sites)};
  for (const char* stream : {".err", ".out"}) {
    const auto file = folder / ("rank" + std::to_string(rank) + stream);
    if (auto tail = tail_of(file); !tail.empty())
      return {folder, rank, std::move(tail), file, std::move(call_sites)};
  }
  return {.logs = folder, .tail_rank = rank, .tail = {}, .tail_file = {}, .call_sites = call_sites};
}

}  // namespace lockstep
