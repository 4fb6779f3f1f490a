#include "harness/engine/evidence.h"

#include "harness/core/text.h"

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

}  // namespace

int rank_to_blame(const History& history) {
  for (const auto kind :
       {Ending::Kind::signalled, Ending::Kind::exited, Ending::Kind::threw, Ending::Kind::stuck})
    for (int rank = 0; rank < history.size(); ++rank)
      if (history.ranks()[static_cast<size_t>(rank)].ending.kind == kind) return rank;
  return 0;
}

Evidence keep_evidence(Tier& tier, const fs::path& folder, const History& history) {
  try {
    tier.keep_output(folder);
  } catch (const TierError&) {
    return {};
  }
  std::error_code none;
  if (fs::is_empty(folder, none) || none) {
    fs::remove(folder, none);
    return {};
  }
  const int rank = rank_to_blame(history);
  for (const char* stream : {".err", ".out"}) {
    const auto file = folder / ("rank" + std::to_string(rank) + stream);
    if (auto tail = tail_of(file); !tail.empty()) return {folder, rank, std::move(tail), file};
  }
  return {.logs = folder, .tail_rank = rank};
}

}  // namespace lockstep
