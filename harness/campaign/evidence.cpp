#include "harness/campaign/evidence.h"

#include "harness/base/text.h"

#include <algorithm>
#include <fstream>
#include <sstream>

namespace lockstep {

namespace {

namespace fs = std::filesystem;
constexpr std::streamoff kLookedAtBytes = 64 << 10;
constexpr size_t kTailBytes = 2048;
constexpr size_t kTailLines = 12;

// LibTorch appends its own stacks to its warnings. They stay in the log: a report is about the
// program.
bool is_of_a_torch_stack(const std::string& line) {
  return line.starts_with("frame #") || line.starts_with("Exception raised from ");
}

std::string tail_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary | std::ios::ate);
  if (!in) return "";
  const std::streamoff size = in.tellg();
  in.seekg(std::max<std::streamoff>(0, size - kLookedAtBytes));
  std::stringstream text;
  text << in.rdbuf();
  auto lines = split(text.str(), '\n');
  while (!lines.empty() && lines.back().empty()) lines.pop_back();
  if (size > kLookedAtBytes && lines.size() > 1) lines.erase(lines.begin());  // begins in mid-line
  std::erase_if(lines, is_of_a_torch_stack);
  if (lines.size() > kTailLines) lines.erase(lines.begin(), lines.end() - kTailLines);
  auto tail = joined(lines, "\n");
  if (tail.size() <= kTailBytes) return tail;
  const auto line = tail.find('\n', tail.size() - kTailBytes);
  return tail.substr(line == std::string::npos ? tail.size() - kTailBytes : line + 1);
}

// The innermost lines of a stack; empty where the rank has none.
std::string stack_of(int rank, const CaseStacks& seen) {
  const auto found = seen.by_rank.find(rank);
  if (found == seen.by_rank.end()) return "";
  auto lines = found->second;
  lines.resize(std::min(lines.size(), kTailLines));
  return joined(lines, "\n");
}

bool any_ended_by_itself(const History& history) {
  const auto& ranks = history.ranks();
  return std::any_of(ranks.begin(), ranks.end(), [](const RankHistory& rank) {
    return rank.ending.kind == Ending::Kind::signalled ||
           rank.ending.kind == Ending::Kind::exited || rank.ending.kind == Ending::Kind::threw;
  });
}

// In a collective that is not done it probably waits for the rank to blame.
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
  CaseStacks seen;
  try {
    seen = tier.keep_output(folder, history);
  } catch (const TierError&) {
    return {};
  }
  std::error_code none;
  if (fs::is_empty(folder, none) || none) {
    fs::remove(folder, none);
    return {};
  }
  const int rank = rank_to_blame(history);
  const auto stem = "rank" + std::to_string(rank);
  Evidence evidence{.logs = folder,
                    .tail_rank = rank,
                    .stack = stack_of(rank, seen),
                    .call_sites = std::move(seen.call_sites)};
  if (!evidence.stack.empty()) evidence.stack_file = folder / (stem + ".stacks");
  for (const char* stream : {".err", ".out"}) {
    if (!evidence.tail.empty()) break;
    evidence.tail_file = folder / (stem + stream);
    evidence.tail = tail_of(evidence.tail_file);
  }
  if (evidence.tail.empty()) evidence.tail_file.clear();
  return evidence;
}

void add_evidence(const Evidence& evidence, Failure& to) {
  to.logs = evidence.logs;
  to.tail_rank = evidence.tail_rank;
  to.tail = evidence.tail;
  to.tail_file = evidence.tail_file;
  to.stack = evidence.stack;
  to.stack_file = evidence.stack_file;
  to.call_sites = evidence.call_sites;
}

}  // namespace lockstep
