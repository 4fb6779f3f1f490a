#include "reports/history.h"

#include "harness/base/dtype.h"
#include "harness/base/text.h"

#include <algorithm>
#include <cstdio>
#include <map>

namespace lockstep::reports {

namespace {

struct Seen {
  Moment at;
  std::string name;
  std::map<int, const TensorValue*> by_rank;
};

// In the order in which any rank first recorded them; the last record of a rank counts.
std::vector<Seen> all_seen(const History& history) {
  std::vector<Seen> all;
  for (int rank = 0; rank < history.size(); ++rank) {
    for (const auto& event : history.ranks()[static_cast<size_t>(rank)].events) {
      const auto* observation = std::get_if<Observation>(&event.what);
      if (!observation) continue;
      auto found = std::find_if(all.begin(), all.end(), [&](const Seen& seen) {
        return seen.at == event.at && seen.name == observation->name;
      });
      if (found == all.end()) found = all.insert(found, Seen{event.at, observation->name, {}});
      found->by_rank[rank] = &observation->value;
    }
  }
  return all;
}

std::string number(double value) {
  char text[40];
  std::snprintf(text, sizeof(text), "%.9g", value);
  return text;
}

std::vector<std::string> element_texts(const TensorValue& value) {
  std::vector<std::string> texts;
  if (traits_of(value.dtype).kind == NumberKind::floating) {
    for (const double element : as_doubles(value)) texts.push_back(number(element));
  } else {
    for (const int64_t element : as_integers(value)) texts.push_back(std::to_string(element));
  }
  return texts;
}

std::string elements(const TensorValue& value, size_t most) {
  std::vector<std::string> texts;
  try {
    texts = element_texts(value);
  } catch (const std::invalid_argument&) {
    return "a " + value.dtype + ", which has no text";
  }
  const size_t left_out = texts.size() > most ? texts.size() - most : 0;
  texts.resize(texts.size() - left_out);
  return joined(texts, " ") + (left_out > 0 ? " … and " + std::to_string(left_out) + " more" : "");
}

}  // namespace

std::string history_text(const History& history, size_t elements_most) {
  std::string text;
  for (const auto& [at, name, by_rank] : all_seen(history)) {
    const auto& first = *by_rank.begin()->second;
    text += "step " + std::to_string(at.step) + "  " + at.phase + "  " + name + "  " +
            shape_text(first) + "\n";
    for (int rank = 0; rank < history.size(); ++rank) {
      const auto found = by_rank.find(rank);
      text += "  rank " + std::to_string(rank) + "  " +
              (found == by_rank.end() ? "–" : elements(*found->second, elements_most)) + "\n";
    }
  }
  for (int rank = 0; rank < history.size(); ++rank) {
    const auto& ending = history.ranks()[static_cast<size_t>(rank)].ending;
    text += "rank " + std::to_string(rank) + "  " + std::string(name_of(ending.kind)) +
            (ending.why.empty() ? "" : " (" + ending.why + ")") + "\n";
  }
  return text;
}

}  // namespace lockstep::reports
