#include "harness/engine/tally.h"

#include "harness/core/groups.h"
#include "harness/core/text.h"
#include "harness/engine/draw.h"

#include <algorithm>
#include <numeric>

namespace lockstep {

namespace {

// A tier that broke three times is unlikely to mend; the cases left would only cost time.
constexpr int kInconclusiveMost = 3;

Result::Kind result_kind(Verdict::Kind kind) {
  switch (kind) {
    case Verdict::Kind::crash:
      return Result::Kind::crash;
    case Verdict::Kind::hang:
      return Result::Kind::hang;
    case Verdict::Kind::leak:
      return Result::Kind::leak;
    case Verdict::Kind::fail:
      return Result::Kind::fail;
    case Verdict::Kind::inconclusive:
      return Result::Kind::inconclusive;
    case Verdict::Kind::refused:
      return Result::Kind::skip;
    case Verdict::Kind::pass:
      return Result::Kind::pass;
  }
  return Result::Kind::inconclusive;
}

std::string reason(const Verdict& verdict) {
  return verdict.findings.empty() ? "no reason given"
                                  : split(verdict.findings.front().text, '\n').front();
}

// So many cases are looked at together for the long ones: a failure makes at most as many others
// useless as in the order of the list.
constexpr size_t kWindow = 16;

std::vector<size_t> long_ones_first(const Job& job) {
  std::vector<size_t> order;
  std::vector<int> sizes;
  for (size_t index = 0; index < job.cases.size(); ++index) {
    sizes.push_back(world_size(job.cases[index]));
    if (job.shard.plays(static_cast<int64_t>(index) + 1)) order.push_back(index);
  }
  for (size_t begin = 0; begin < order.size(); begin += kWindow) {
    const auto first = order.begin() + static_cast<std::ptrdiff_t>(begin);
    const auto last = first + static_cast<std::ptrdiff_t>(std::min(kWindow, order.size() - begin));
    std::stable_sort(first, last, [&](size_t a, size_t b) { return sizes[a] > sizes[b]; });
  }
  return order;
}

// What a case counts as, but for its number.
CaseGroup group_of(const Verdict& verdict, const Case& c) {
  if (verdict.kind == Verdict::Kind::refused)
    return {.verdict = verdict.kind, .reason = reason(verdict)};
  CaseGroup group{.verdict = verdict.kind, .world = world_size(c)};
  group.labels.push_back("world " + std::to_string(group.world));
  if (c.value.contains("values"))
    group.labels.push_back("values " + c.value["values"].get<std::string>());
  return group;
}

}  // namespace

Planned planned(const Job& job) {
  std::string hashes;
  for (const auto& c : job.cases) hashes += hash_of(c);
  return {.scenario = job.scenario.name,
          .exactness = job.scenario.exactness,
          .setting = job.setting,
          .cases = static_cast<int64_t>(job.cases.size()),
          .hash = hash_of(hashes)};
}

Tally::Tally(Job job)
    : job_(std::move(job)),
      verdicts_(job_.cases.size()),
      order_(long_ones_first(job_)),
      stop_at_(job_.cases.size()) {}

std::optional<size_t> Tally::next() {
  while (next_ < order_.size()) {
    const size_t index = order_[next_++];
    if (!worth_playing(index)) continue;
    ++running_;
    return index;
  }
  return {};
}

bool Tally::complete() const {
  return running_ == 0 &&
         std::none_of(order_.begin() + static_cast<std::ptrdiff_t>(next_), order_.end(),
                      [&](size_t index) { return worth_playing(index); });
}

void Tally::played(size_t index, Verdict verdict) {
  --running_;
  if (is_failure(verdict.kind)) stop_at_ = std::min(stop_at_, index + 1);
  if (verdict.kind == Verdict::Kind::inconclusive && ++inconclusive_ >= kInconclusiveMost)
    hand_out_no_more();
  verdicts_[index] = std::move(verdict);
}

void Tally::dropped(size_t) {
  --running_;
}

std::optional<size_t> Tally::culprit() const {
  std::optional<size_t> inconclusive;
  for (size_t index = 0; index < stop_at_; ++index) {
    if (!verdicts_[index]) continue;
    if (is_failure(verdicts_[index]->kind)) return index;
    if (verdicts_[index]->kind == Verdict::Kind::inconclusive && !inconclusive)
      inconclusive = index;
  }
  return inconclusive;
}

bool Tally::flaky() const {
  const auto index = culprit();
  return index && std::any_of(again_.begin(), again_.end(), [&](const Verdict& verdict) {
           return verdict.kind != verdicts_[*index]->kind ||
                  verdict.signature() != verdicts_[*index]->signature();
         });
}

std::vector<CaseGroup> Tally::groups() const {
  std::vector<CaseGroup> groups;
  for (size_t index = 0; index < stop_at_; ++index) {
    if (!verdicts_[index]) continue;
    auto group = group_of(*verdicts_[index], job_.cases[index]);
    group.numbers = {static_cast<int>(index) + 1};
    add(groups, std::move(group));
  }
  return groups;
}

Failure Tally::failure(size_t index) const {
  const Case& c = job_.cases[index];
  Failure failure{.c = c,
                  .unlike_default = unlike(c.value, job_.scenario.parse(Json::object()).value),
                  .number = static_cast<int>(index) + 1,
                  .of = static_cast<int>(job_.cases.size()),
                  .plays = {verdicts_[index]->kind}};
  for (const auto& verdict : again_) failure.plays.push_back(verdict.kind);
  return failure;
}

Result Tally::result() const {
  Result result{.scenario = job_.scenario.name,
                .claim = job_.scenario.claim,
                .exactness = job_.scenario.exactness,
                .setting = job_.setting};
  result.groups = groups();
  count_groups(result);
  result.exactness = claimed(result.exactness, result);
  if (!job_.left_out.empty()) {
    result.kind = Result::Kind::skip;
    result.worst = {Verdict::Kind::refused,
                    {{"A scenario must have what a flag fixes", "refused", "", job_.left_out}}};
    result.refused[job_.left_out] = 0;
  } else if (const auto index = culprit()) {
    result.worst = *verdicts_[*index];
    result.kind = flaky() ? Result::Kind::flaky : result_kind(result.worst.kind);
    result.failure = failure(*index);
  } else if (result.judged == 0 && !result.refused.empty()) {
    result.kind = Result::Kind::skip;
    for (const auto& verdict : verdicts_)
      if (verdict && verdict->kind == Verdict::Kind::refused) result.worst = *verdict;
  } else if (result.judged == 0) {
    result.kind = Result::Kind::fail;
    result.worst = {Verdict::Kind::fail,
                    {{"A scenario must be judged on at least one case", "vacuous", "",
                      "there was no case to play"}}};
  }
  return result;
}

}  // namespace lockstep
