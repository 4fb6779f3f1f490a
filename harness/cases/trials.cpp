#include "harness/cases/trials.h"

#include <algorithm>

namespace lockstep {

namespace {
constexpr size_t kAtOnce = 32;  // as many lanes find something to run
}

void Search::allow(TrialTime until, int64_t runs_most) {
  until_ = until;
  runs_most_ = runs_most;
  end_ = End::none;
}

std::optional<size_t> Search::first(const std::vector<Case>& cases, Outcome wanted, size_t begin) {
  for (size_t done = 0; done < cases.size(); done += kAtOnce) {
    std::vector<Case> some;
    for (size_t i = done; i < std::min(done + kAtOnce, cases.size()); ++i)
      some.push_back(cases[(begin + i) % cases.size()]);
    if (const auto found = first_of(some, wanted)) return (begin + done + *found) % cases.size();
    if (end_ != End::none) return {};
  }
  return {};
}

std::optional<size_t> Search::first_of(const std::vector<Case>& cases, Outcome wanted) {
  std::vector<std::string> hashes, unknown_hashes;
  std::vector<Case> unknown;
  for (const auto& c : cases) {
    const auto& hash = hashes.emplace_back(hash_of(c));
    if (const auto known = known_.find(hash); known != known_.end()) {
      if (known->second == wanted) break;
    } else if (std::find(unknown_hashes.begin(), unknown_hashes.end(), hash) ==
                   unknown_hashes.end() &&
               runs() + static_cast<int64_t>(unknown.size()) < runs_most_) {
      unknown.push_back(c);
      unknown_hashes.push_back(hash);
    }
  }
  if (!unknown.empty()) {
    const auto outcomes = trials_.run(unknown, wanted, until_);
    for (size_t i = 0; i < outcomes.size(); ++i)
      if (outcomes[i]) known_[unknown_hashes[i]] = *outcomes[i];
  }
  for (size_t i = 0; i < hashes.size(); ++i) {
    const auto known = known_.find(hashes[i]);
    if (known == known_.end() || (runs() >= runs_most_ && !counted_.contains(hashes[i]))) {
      end_ = runs() >= runs_most_ ? End::runs : End::time;
      return {};
    }
    counted_.insert(hashes[i]);
    if (known->second == wanted) return i;
  }
  return {};
}

void Search::narrow() {
  std::erase_if(known_, [](const auto& known) { return known.second == Outcome::shows; });
}

std::optional<Outcome> Search::outcome(const Case& c) const {
  const auto known = known_.find(hash_of(c));
  return known == known_.end() ? std::nullopt : std::optional(known->second);
}

TrialList::TrialList(std::vector<Case> cases, Outcome wanted)
    : cases_(std::move(cases)),
      wanted_(wanted),
      outcomes_(cases_.size()),
      is_out_(cases_.size(), false),
      needed_(cases_.size()) {}

std::optional<size_t> TrialList::next() {
  if (!has_next()) return {};
  is_out_[next_] = true;
  return next_++;
}

void TrialList::record(size_t index, std::optional<Outcome> outcome) {
  is_out_[index] = false;
  outcomes_[index] = outcome;
  if (!outcome) is_closed_ = true;
  if (outcome == wanted_) needed_ = std::min(needed_, index);
}

bool TrialList::complete() const {
  const auto end = is_out_.begin() + static_cast<std::ptrdiff_t>(needed_);
  return !has_next() && std::find(is_out_.begin(), end, true) == end;
}

}  // namespace lockstep
