#include "scenarios/cases/sentences.h"

#include "harness/base/values.h"
#include "harness/worlds/subject.h"

#include <c10/util/Exception.h>

#include <algorithm>

namespace lockstep::scenarios {

namespace {

constexpr const char* kOurs = "lockstep";
// Before a sentence in other words than ours.
constexpr int64_t kOwnWords = 0;

std::vector<int64_t> recorded_in(const Row& row, int rank) {
  return as_integers(row.by_rank[static_cast<size_t>(rank)]);
}

bool has_mark(const std::vector<int64_t>& recorded) {
  return !recorded.empty() && recorded.front() == kOwnWords;
}

}  // namespace

void record_sentence(RankContext& here, const char* name, const std::string& sentence) {
  std::vector<int64_t> bytes(sentence.begin(), sentence.end());
  if (!bytes.empty() && here.subject().name != kOurs) bytes.insert(bytes.begin(), kOwnWords);
  here.record(name, bytes);
}

void record_whose_words(RankContext& here, const char* name) {
  record_sentence(here, name, "none yet");
}

std::string sentence_in(const Row& row, int rank) {
  const auto bytes = recorded_in(row, rank);
  return {bytes.begin() + (has_mark(bytes) ? 1 : 0), bytes.end()};
}

bool is_in_our_words(const Row& row) {
  for (int rank = 0; rank < static_cast<int>(row.by_rank.size()); ++rank)
    if (has_mark(recorded_in(row, rank))) return false;
  return true;
}

Findings all_received_one_sentence(const Row& row) {
  const auto quoted = [&](int rank) {
    const auto sentence = sentence_in(row, rank);
    return "rank " + std::to_string(rank) + " received " +
           (sentence.empty() ? "no error" : "'" + sentence + "'");
  };
  for (int rank = 1; rank < static_cast<int>(row.by_rank.size()); ++rank)
    if (sentence_in(row, rank) != sentence_in(row, 0))
      return {{"Every rank must receive the same error",
               "sentences_differ",
               {row.at, row.name},
               quoted(0) + "; " + quoted(rank)}};
  return {};
}

std::string naming(std::string sentence, const std::string& path, const std::string& name) {
  for (auto at = sentence.find(path); at != std::string::npos;
       at = sentence.find(path, at + name.size()))
    sentence.replace(at, path.size(), name);
  return sentence;
}

std::string error_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const Unsupported&) {
    throw;
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

std::string named(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (i > 0) text += i + 1 == ranks.size() ? " and " : ", ";
    text += std::to_string(ranks[i]);
  }
  return text;
}

class Warnings::Handler : public c10::WarningHandler {
 public:
  void process(const c10::Warning& warning) override { received.push_back(warning.msg()); }
  std::vector<std::string> received;
};

Warnings::Warnings()
    : handler_(std::make_unique<Handler>()), before_(c10::WarningUtils::get_warning_handler()) {
  c10::WarningUtils::set_warning_handler(handler_.get());
}

Warnings::~Warnings() {
  c10::WarningUtils::set_warning_handler(before_);
}

const std::vector<std::string>& Warnings::received() const {
  return handler_->received;
}

}  // namespace lockstep::scenarios
