#include "ddp/disagreement.h"

#include <algorithm>
#include <sstream>
#include <stdexcept>

namespace lockstep {

namespace {

// Text as "length:bytes", so that values may hold anything.
void put(std::string& out, const std::string& text) {
  out += std::to_string(text.size());
  out += ':';
  out += text;
}

std::string take(const std::string& text, std::size_t& at) {
  const std::size_t colon = text.find(':', at);
  if (colon == std::string::npos || colon == at || colon - at > 18 ||
      text.find_first_not_of("0123456789", at) != colon) {
    throw std::invalid_argument("a declaration's length is missing at byte " + std::to_string(at));
  }
  const std::size_t size = std::stoull(text.substr(at, colon - at));
  if (size > text.size() - colon - 1) {
    throw std::invalid_argument("a declaration is cut off at byte " + std::to_string(colon));
  }
  at = colon + 1 + size;
  return text.substr(colon + 1, size);
}

// The ranks that say the same, by what they say, in order of their first rank.
struct Camp {
  std::string value;
  std::vector<std::size_t> ranks;
};

std::vector<Camp> camps_of(const std::vector<std::string>& values) {
  std::vector<Camp> camps;
  for (std::size_t rank = 0; rank < values.size(); ++rank) {
    const auto known = std::find_if(camps.begin(), camps.end(),
                                    [&](const Camp& camp) { return camp.value == values[rank]; });
    if (known == camps.end()) {
      camps.push_back({values[rank], {rank}});
    } else {
      known->ranks.push_back(rank);
    }
  }
  return camps;
}

std::string verb(const Camp& camp, const char* one, const char* many) {
  return camp.ranks.size() == 1 ? one : many;
}

std::optional<std::string> find_obstacle(const std::vector<Declaration>& declarations) {
  std::vector<std::string> obstacles;
  for (const Declaration& declaration : declarations) {
    obstacles.push_back(declaration.obstacle.value_or(""));
  }
  std::string sentence;
  for (const Camp& camp : camps_of(obstacles)) {
    if (camp.value.empty()) continue;
    if (!sentence.empty()) sentence += "; ";
    sentence += name_ranks(camp.ranks) + " of " + std::to_string(declarations.size()) +
                " cannot take part: " + camp.value;
  }
  if (sentence.empty()) return std::nullopt;
  return sentence;
}

std::string describe(const std::string& subject, const std::vector<Camp>& camps) {
  std::string sentence = "ranks disagree on " + subject + ": ";
  for (std::size_t i = 0; i < camps.size(); ++i) {
    if (i > 0) sentence += "; ";
    sentence += name_ranks(camps[i].ranks) + verb(camps[i], " has ", " have ") + camps[i].value;
  }
  return sentence;
}

}  // namespace

std::string encode(const Declaration& declaration) {
  std::string text;
  put(text, declaration.obstacle ? "1" : "0");
  put(text, declaration.obstacle.value_or(""));
  for (const Statement& statement : declaration.statements) {
    put(text, statement.subject);
    put(text, statement.value);
  }
  return text;
}

Declaration decode(const std::string& text) {
  Declaration declaration;
  std::size_t at = 0;
  const bool has_obstacle = take(text, at) == "1";
  std::string obstacle = take(text, at);
  if (has_obstacle) declaration.obstacle = std::move(obstacle);
  while (at < text.size()) {
    std::string subject = take(text, at);
    std::string value = take(text, at);
    declaration.statements.push_back({std::move(subject), std::move(value)});
  }
  return declaration;
}

std::uint64_t fingerprint(const std::string& text) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const char byte : text) {
    hash ^= static_cast<unsigned char>(byte);
    hash *= 0x100000001b3U;
  }
  return hash;
}

std::string name_ranks(const std::vector<std::size_t>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (i > 0) text += i + 1 == ranks.size() ? " and " : ", ";
    text += std::to_string(ranks[i]);
  }
  return text;
}

std::optional<std::string> find_disagreement(const std::vector<Declaration>& declarations) {
  if (auto obstacle = find_obstacle(declarations)) return obstacle;
  std::size_t longest = 0;
  for (const Declaration& each : declarations) longest = std::max(longest, each.statements.size());
  for (std::size_t i = 0; i < longest; ++i) {
    std::vector<std::string> subjects;
    std::vector<std::string> values;
    for (const Declaration& each : declarations) {
      const bool present = i < each.statements.size();
      subjects.push_back(present ? each.statements[i].subject : "nothing");
      values.push_back(present ? each.statements[i].value : "nothing");
    }
    const std::vector<Camp> by_subject = camps_of(subjects);
    if (by_subject.size() > 1) return describe("what comes next in their list", by_subject);
    const std::vector<Camp> by_value = camps_of(values);
    if (by_value.size() > 1) return describe(subjects.front(), by_value);
  }
  return std::nullopt;
}

std::string exact_text(double value) {
  std::ostringstream text;
  text.precision(17);
  text << value;
  return text.str();
}

}  // namespace lockstep
