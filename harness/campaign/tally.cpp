#include "harness/campaign/tally.h"

#include "harness/cases/draw.h"
#include "harness/cases/groups.h"
#include "harness/cases/shown_fields.h"

#include <algorithm>

namespace lockstep {

namespace {

// A tier that broke three times is unlikely to recover; the remaining cases would only cost time.
constexpr int kInconclusiveMost = 3;

std::string reason(const Verdict& verdict) {
  return verdict.findings.empty() ? "no reason given" : verdict.findings.front().diagnosis;
}

// The number of cases that are sorted by size together: a failure makes at most as many others
// useless as in the order of the list.
constexpr size_t kWindow = 16;

// A verdict that must be reported.
bool does_not_hold(const Verdict& verdict) {
  return is_failure(verdict.kind) || verdict.kind == Verdict::Kind::inconclusive;
}

// The part of a verdict that counts a case without reporting its findings.
Verdict without_story(const Verdict& verdict) {
  Verdict out{verdict.kind, {}};
  if (!verdict.findings.empty())
    out.findings.push_back(
        {verdict.findings.front().rule, verdict.findings.front().pattern, "", ""});
  return out;
}

// Adds the labels of a drawn case of a scenario that requires shares, refused or not: a refusal is
// the subject's, and says nothing of what was drawn.
void add_share_labels(CaseGroup& group, const Job& job, size_t index) {
  const auto& required = job.scenario.required_shares;
  if (required.empty() || !job.cases.is_drawn(index)) return;
  group.labels.push_back(kDrawn);
  for (size_t i = 0; i < required.size(); ++i)
    if (job.cases.labels(index) >> i & 1) group.labels.push_back(required[i].label);
}

// The group in which a case counts, without its number.
CaseGroup group_of(const Verdict& verdict, const Job& job, size_t index, bool with_signature) {
  CaseGroup group{.verdict = verdict.kind};
  if (verdict.kind == Verdict::Kind::refused) {
    group.reason = reason(verdict);
  } else {
    group.world = job.cases.world_size(index);
    if (with_signature && does_not_hold(verdict)) group.signature = verdict.signature();
    group.labels.push_back("world " + std::to_string(group.world));
    if (const auto& values = job.cases.values(index); !values.empty())
      group.labels.push_back("values " + values);
  }
  add_share_labels(group, job, index);
  return group;
}

}  // namespace

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

JobSummary summary_of(const Job& job) {
  return {.scenario = job.scenario.name,
          .exactness = job.scenario.exactness,
          .setting = job.setting,
          .cases = static_cast<int64_t>(job.cases.size()),
          .hash = job.cases.hash(),
          .pairs = job.cases.pairs()};
}

Tally::Tally(Job job, AfterFailure after_failure)
    : job_(std::move(job)),
      keeps_going_(after_failure == AfterFailure::keep_going),
      listed_(job_.cases.size()),
      verdicts_(job_.cases.size()),
      stop_at_(job_.cases.size()) {
  hand_out_from(0);
}

void Tally::hand_out_from(size_t first) {
  const auto begin = static_cast<std::ptrdiff_t>(order_.size());
  for (size_t index = first; index < job_.cases.size(); ++index)
    if (job_.shard.has(static_cast<int64_t>(index) + 1)) order_.push_back(index);
  const auto by_size = [&](size_t a, size_t b) {
    return job_.cases.world_size(a) > job_.cases.world_size(b);
  };
  const auto window = static_cast<std::ptrdiff_t>(kWindow);
  for (auto from = order_.begin() + begin; from != order_.end();) {
    const auto to = from + std::min(window, order_.end() - from);
    std::stable_sort(from, to, by_size);
    from = to;
  }
}

bool Tally::grow() {
  const size_t before = job_.cases.size();
  if (!job_.more || stop_at_ < before) return false;
  job_.cases = job_.more();
  verdicts_.resize(job_.cases.size());
  stop_at_ = job_.cases.size();
  hand_out_from(before);
  return job_.cases.size() > before;
}

bool Tally::any_ran() const {
  return std::any_of(verdicts_.begin(), verdicts_.end(),
                     [](const auto& verdict) { return verdict.has_value(); });
}

std::optional<size_t> Tally::next() {
  while (next_ < order_.size()) {
    const size_t index = order_[next_++];
    if (!worth_running(index)) continue;
    ++running_;
    return index;
  }
  return {};
}

bool Tally::complete() const {
  return running_ == 0 &&
         std::none_of(order_.begin() + static_cast<std::ptrdiff_t>(next_), order_.end(),
                      [&](size_t index) { return worth_running(index); });
}

void Tally::record(size_t index, Verdict verdict, int passes) {
  --running_;
  if (is_failure(verdict.kind) && !keeps_going_) stop_at_ = std::min(stop_at_, index + 1);
  if (verdict.kind == Verdict::Kind::inconclusive && ++inconclusive_ >= kInconclusiveMost &&
      !keeps_going_)
    hand_out_no_more();
  verdicts_[index] = std::move(verdict);
  if (!does_not_hold(*verdicts_[index])) return;
  if (passes > 0) passes_[index] = passes;
  remember_signature(index);
}

// Only the first case of a signature keeps its findings: there may be thousands of cases.
void Tally::remember_signature(size_t index) {
  auto& first = first_of_.try_emplace(verdicts_[index]->signature(), index).first->second;
  if (first == index) return;
  auto& silent = *verdicts_[std::max(first, index)];
  silent = without_story(silent);
  first = std::min(first, index);
}

bool Tally::is_first_of_its_signature(size_t index, const Verdict& verdict) const {
  const auto found = first_of_.find(verdict.signature());
  return found == first_of_.end() || index < found->second;
}

void Tally::dropped(size_t) {
  --running_;
}

std::vector<size_t> Tally::culprits() const {
  std::vector<size_t> indices;
  for (const auto& [signature, index] : first_of_)
    if (index < stop_at_) indices.push_back(index);
  std::sort(indices.begin(), indices.end());
  std::stable_partition(indices.begin(), indices.end(),
                        [&](size_t index) { return is_failure(verdicts_[index]->kind); });
  if (!keeps_going_ && indices.size() > 1) indices.resize(1);
  return indices;
}

bool Tally::flaky(size_t index) const {
  if (passes_.contains(index) && is_failure(verdicts_[index]->kind)) return true;
  const auto again = again_.find(index);
  return again != again_.end() &&
         std::any_of(again->second.begin(), again->second.end(), [&](const Verdict& verdict) {
           return verdict.kind != verdicts_[index]->kind ||
                  verdict.signature() != verdicts_[index]->signature();
         });
}

std::vector<CaseGroup> Tally::groups() const {
  std::vector<CaseGroup> groups;
  for (size_t index = 0; index < stop_at_; ++index) {
    if (!verdicts_[index]) continue;
    auto group = group_of(*verdicts_[index], job_, index, keeps_going_);
    group.numbers = {static_cast<int>(index) + 1};
    add(groups, std::move(group));
  }
  return groups;
}

Failure Tally::failure(size_t index) const {
  const Case c = job_.cases[index];
  Failure failure{.c = c,
                  .unlike_default = unlike_default(job_.scenario, c.value),
                  .number = static_cast<int>(index) + 1,
                  .of = static_cast<int>(job_.cases.size()),
                  .archived = index < job_.cases.archived()};
  if (const auto passes = passes_.find(index); passes != passes_.end())
    failure.runs.resize(static_cast<size_t>(passes->second), Verdict::Kind::pass);
  failure.runs.push_back(verdicts_[index]->kind);
  if (const auto again = again_.find(index); again != again_.end())
    for (const auto& verdict : again->second) failure.runs.push_back(verdict.kind);
  return failure;
}

Result::Found Tally::found(size_t index) const {
  const auto& verdict = *verdicts_[index];
  return {flaky(index) ? Result::Kind::flaky : result_kind(verdict.kind), verdict, failure(index)};
}

bool Tally::the_list_has_verdicts() const {
  for (size_t index = 0; index < listed_; ++index)
    if (job_.shard.has(static_cast<int64_t>(index) + 1) && !verdicts_[index]) return false;
  return true;
}

void Tally::tried_schedules(size_t index, const SchedulesTried& tried) {
  if (tried.count == 0) return;
  schedules_[index] = {.schedules = tried.count,
                       .cases = 1,
                       .complete = tried.complete ? 1 : 0,
                       .decisions_min = tried.complete ? 0 : tried.decisions};
}

ScheduleCounts Tally::schedule_counts() const {
  ScheduleCounts all;
  for (const auto& [index, counts] : schedules_)
    if (index < stop_at_) add(all, counts);
  return all;
}

Result Tally::result() const {
  Result result{.scenario = job_.scenario.name,
                .claim = job_.scenario.claim,
                .exactness = job_.scenario.exactness,
                .setting = job_.setting};
  result.groups = groups();
  result.schedules = schedule_counts();
  // Cases grow along a list: one that was cut short has other shares. Cases drawn beyond it are as
  // large as those at its end.
  if (job_.judges_shares && the_list_has_verdicts())
    result.required_shares = job_.scenario.required_shares;
  count_groups(result);
  result.exactness = claimed(result.exactness, result);
  if (!job_.left_out.empty()) {
    result.kind = Result::Kind::skip;
    result.worst = {Verdict::Kind::refused,
                    {{"A scenario must have what a flag fixes", "refused", "", job_.left_out}}};
    result.refused[job_.left_out] = 0;
  } else if (const auto indices = culprits(); !indices.empty()) {
    for (const auto index : indices) result.others.push_back(found(index));
    const auto first = result.others.front();
    result.others.erase(result.others.begin());
    result.kind = first.kind;
    result.worst = first.worst;
    result.failure = first.failure;
  } else if (result.judged == 0 && !result.refused.empty()) {
    result.kind = Result::Kind::skip;
    for (const auto& verdict : verdicts_)
      if (verdict && verdict->kind == Verdict::Kind::refused) result.worst = *verdict;
  } else if (result.judged == 0) {
    result.kind = Result::Kind::fail;
    result.worst = {Verdict::Kind::fail,
                    {{"A scenario must be judged on at least one case", "vacuous", "",
                      "there was no case to run"}}};
  }
  if (job_.shard.of == 1) judge_shares(result);
  return result;
}

}  // namespace lockstep
