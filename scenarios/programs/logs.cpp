#include "scenarios/programs/logs.h"

#include "scenarios/programs/run.h"

#include <torch/torch.h>

#include <algorithm>
#include <set>

namespace lockstep::scenarios::programs {

namespace {

constexpr const char* kArrivals = "prev_iteration_grad_ready_order_indices";
constexpr const char* kSizes = "bucket_sizes";
constexpr int64_t kNext = -1;

using List = std::vector<int64_t>;

std::vector<int64_t> listed(const reference::Buckets& buckets) {
  std::vector<int64_t> out;
  for (const auto& bucket : buckets) {
    for (const size_t each : bucket) out.push_back(static_cast<int64_t>(each));
    out.push_back(kNext);
  }
  return out;
}

// The letters of names, one after the other.
std::vector<int64_t> spelled(const auto& names) {
  std::vector<int64_t> out;
  for (const std::string& name : names) {
    out.insert(out.end(), name.begin(), name.end());
    out.push_back(kNext);
  }
  return out;
}

// Times of forward, backward, communication, and the overlap of the last two. A replica counts the
// passes that it timed; the first ten are among them.
bool times_are_possible(const ReplicaLog& log) {
  const auto possible = [](const std::vector<int64_t>& times) {
    return std::ranges::all_of(times, [](int64_t each) { return each >= 0; }) &&
           times[3] <= std::min(times[1], times[2]);
  };
  const auto ran = [](const std::vector<int64_t>& times) {
    return times[0] > 0 && times[1] > 0 && times[2] > 0;
  };
  const bool has_timed = log.timed_iterations > 0;
  if (!possible(log.times) || !possible(log.average_times)) return false;
  if (has_timed != ran(log.average_times) || has_timed != ran(log.times)) return false;
  return log.timed_iterations != 1 || log.times == log.average_times;
}

List switches_of(const ReplicaLog& log) {
  List out;
  for (const auto& each : log.switches) out.push_back(each.second);
  return out;
}

std::optional<List> known(std::optional<int64_t> count) {
  return count ? std::optional(List{*count}) : std::nullopt;
}

// As the options say, with those of PyTorch where they say nothing.
std::vector<int64_t> caps_of(const WrapOptions& options) {
  constexpr int64_t kMebibyte = int64_t{1} << 20;
  if (!options.bucket_caps_bytes.empty()) return options.bucket_caps_bytes;
  if (options.bucket_cap_bytes != 0) return {options.bucket_cap_bytes};
  return {kMebibyte, 25 * kMebibyte};
}

bool acts_in(const std::vector<int>& group, const Action& action) {
  return std::any_of(group.begin(), group.end(),
                     [&](int rank) { return action.acts[static_cast<size_t>(rank)]; });
}

}  // namespace

bool is_logged(const Action& action) {
  return action.step.op == Op::forward || action.step.op == Op::throw_;
}

void record_log(RankContext& here, int model, const Replica* replica) {
  const auto log = replica ? replica->log() : std::nullopt;
  const auto record = [&](const std::string& name, const std::vector<int64_t>& values) {
    here.record(name_in_records(model, name), values);
  };
  for (const auto& part : FollowedLog::parts())
    record(part.name, log ? part.recorded(*log) : List());
  std::vector<int64_t> arrivals;
  if (log)
    arrivals.assign(log->prev_iteration_grad_ready_order_indices.begin(),
                    log->prev_iteration_grad_ready_order_indices.end());
  record(kArrivals, arrivals);
}

FollowedLog::FollowedLog(const ProgramSpec& c, const FollowedModel& model, int number)
    : c_(c),
      number_(number),
      caps_(caps_of(c.options)),
      of_all_(model.gradients()),
      ranks_(static_cast<size_t>(c.world.size)) {
  wrap(model);
}

void FollowedLog::wrap(const FollowedModel& model) {
  is_wrapped_ = true;
  ranks_.assign(ranks_.size(), {});
  begin_anew(model);
  constructed_ = sizes_of(first_);
}

void FollowedLog::begin_anew(const FollowedModel& model) {
  for (const auto& group : model.groups())
    for (size_t i = 0; i < group.size(); ++i) {
      at(group[i]).in_group = static_cast<int64_t>(i);
      at(group[i]).group_size = static_cast<int64_t>(group.size());
    }
  for (auto& rank : ranks_) {
    rank.is_rebuilt = false;
    rank.rebuilt.reset();
    rank.iteration = 0;
  }
  numbers_ = model.reduced();
  reduced_.clear();
  for (const size_t p : numbers_) reduced_.push_back(of_all_[p]);
  const bool has_caps = finds_unused(c_) || !c_.options.bucket_caps_bytes.empty();
  first_ = reference::first_buckets(reduced_, has_caps ? caps_ : std::vector<int64_t>());
}

void FollowedLog::follow(const Action& action, const FollowedModel& model, const History& h) {
  const auto op = action.step.op;
  if (op == Op::unwrap) is_wrapped_ = false;
  if (op == Op::wrap) wrap(model);
  const bool is_noted = is_freeze(op) && !action.step.forgotten;
  if (op == Op::regroup || op == Op::tell || is_noted) begin_anew(model);
  if (op == Op::join && action.step.uneven != JoinKind::disabled)
    for (auto& rank : ranks_) rank.has_joined = true;
  const bool prepares =
      op == Op::forward ? action.is_synchronised : op == Op::throw_ && !action.is_local;
  for (const auto& group : model.groups()) {
    if (!is_wrapped_ || !acts_in(group, action)) continue;
    const auto& first = at(group.front());
    if (prepares && first.iteration > 0 && !first.is_rebuilt && !finds_unused(c_))
      rebuild(group, action, h);
    if (is_backward(op) && action.is_synchronised) end_pass(group, model);
  }
}

// The first rank of the group records the arrivals that decide behind the step itself, for a
// forward brings none.
void FollowedLog::rebuild(const std::vector<int>& group, const Action& action, const History& h) {
  std::optional<reference::Buckets> rebuilt;
  const auto first = static_cast<size_t>(group.front());
  if (action.acts[first]) {
    const auto row = h.row({action.number, kAfter}, name_in_records(number_, kArrivals));
    std::vector<size_t> arrivals;
    for (const int64_t each : as_integers(row.by_rank[first]))
      arrivals.push_back(static_cast<size_t>(each));
    rebuilt = reference::rebuilt_buckets(reduced_, caps_, arrivals);
  }
  for (const int rank : group) {
    at(rank).is_rebuilt = true;
    at(rank).rebuilt = rebuilt;
  }
}

void FollowedLog::end_pass(const std::vector<int>& group, const FollowedModel& model) {
  std::optional<int64_t> unused, reduced;
  if (!c_.options.static_graph) {
    unused = 0;
    for (size_t i = 0; i < numbers_.size() && finds_unused(c_); ++i)
      if (!model.replicas().was_averaged(group.front(), numbers_[i])) *unused += reduced_[i].bytes;
  }
  for (const int rank : group) {
    auto& each = at(rank);
    const auto& plan = each.is_rebuilt ? each.rebuilt : std::optional(first_);
    reduced.reset();
    if (plan && !c_.options.skip_all_reduce_unused_params)
      reduced = static_cast<int64_t>(plan->size());
    ++each.iteration;
    each.unused_bytes = unused;
    each.reduced_count = reduced;
  }
}

std::vector<int64_t> FollowedLog::sizes_of(const reference::Buckets& buckets) const {
  std::vector<int64_t> out;
  for (const auto& bucket : buckets) out.push_back(reference::bytes_in(bucket, reduced_));
  return out;
}

std::vector<int64_t> FollowedLog::dtypes() const {
  std::set<std::string> names;
  for (const auto& each : reduced_)
    names.emplace(caffe2::TypeMeta::fromScalarType(static_cast<at::ScalarType>(each.kind)).name());
  return spelled(names);
}

// Says `said_of` of a rank's rebuilt buckets: nothing before it rebuilds, unknown where they are.
template <class SaidOf>
FollowedLog::Values FollowedLog::of_rebuilt(const Rank& rank, const SaidOf& said_of) {
  if (!rank.is_rebuilt) return List();
  return rank.rebuilt ? Values(said_of(*rank.rebuilt)) : Values();
}

// Each value of a log: as ranks record it, and as it is expected of a rank.
std::span<const FollowedLog::Part> FollowedLog::parts() {
  using Log = const ReplicaLog&;
  using All = const FollowedLog&;
  using One = const Rank&;
  static const Part all[]{
      {kSizes, [](Log log) { return log.bucket_sizes; },
       [](All all, One) -> Values { return all.constructed_; }},
      {"has_rebuilt_buckets", [](Log log) { return List{log.has_rebuilt_buckets}; },
       [](All, One rank) -> Values { return List{rank.is_rebuilt}; }},
      {"rebuilt_bucket_sizes", [](Log log) { return log.rebuilt_bucket_sizes; },
       [](All all, One rank) {
         return of_rebuilt(rank, [&](const auto& buckets) { return all.sizes_of(buckets); });
       }},
      {"rebuilt_per_bucket_param_indices",
       [](Log log) { return listed(log.rebuilt_per_bucket_param_indices); },
       [](All, One rank) { return of_rebuilt(rank, listed); }},
      {"join_uneven_inputs", [](Log log) { return List{log.join_uneven_inputs}; },
       [](All, One rank) -> Values { return List{rank.has_joined}; }},
      {"iteration", [](Log log) { return List{log.iteration}; },
       [](All, One rank) -> Values { return List{rank.iteration}; }},
      {"num_parameter_tensors", [](Log log) { return List{log.num_parameter_tensors}; },
       [](All all, One) -> Values { return List{static_cast<int64_t>(all.reduced_.size())}; }},
      {"total_parameter_size_bytes", [](Log log) { return List{log.total_parameter_size_bytes}; },
       [](All all, One) -> Values {
         int64_t bytes = 0;
         for (const auto& each : all.reduced_) bytes += each.bytes;
         return List{bytes};
       }},
      {"num_buckets_reduced", [](Log log) { return List{log.num_buckets_reduced}; },
       [](All, One rank) { return known(rank.reduced_count); }},
      {"unused_parameter_size", [](Log log) { return List{log.unused_parameter_size}; },
       [](All, One rank) { return known(rank.unused_bytes); }},
      {"rank", [](Log log) { return List{log.rank}; },
       [](All, One rank) -> Values { return List{rank.in_group}; }},
      {"world_size", [](Log log) { return List{log.world_size}; },
       [](All, One rank) -> Values { return List{rank.group_size}; }},
      {"bucket_cap_bytes", [](Log log) { return log.bucket_cap_bytes; },
       [](All all, One) -> Values { return all.caps_; }},
      {"switches", switches_of,
       [](All all, One) -> Values {
         const auto& options = all.c_.options;
         return List{options.broadcast_buffers, options.find_unused_parameters,
                     options.gradient_as_bucket_view, /*has_sync_bn=*/0, options.static_graph};
       }},
      {"dtypes", [](Log log) { return spelled(log.dtypes); },
       [](All all, One) -> Values { return all.dtypes(); }},
      {"has_comm_hook", [](Log log) { return List{!log.comm_hook.empty()}; },
       [](All all, One) -> Values { return List{all.c_.hook != BucketHook::none}; }},
      {"times", [](Log log) { return List{times_are_possible(log)}; },
       [](All, One) -> Values { return List{1}; }}};
  return all;
}

std::vector<Comparison> FollowedLog::rows(const History& h, const Moment& at,
                                          const Action* action) const {
  const auto acts = [&](size_t rank) { return !action || action->acts[rank]; };
  std::vector<Comparison> out;
  if (!is_wrapped_) return out;
  for (const auto& part : parts()) {
    Comparison comparison{.row = h.row(at, name_in_records(number_, part.name)), .expected = {}};
    const auto& seen = comparison.row.by_rank;
    const bool is_kept = std::any_of(seen.begin(), seen.end(),
                                     [](const TensorValue& each) { return !each.bytes.empty(); });
    if (part.name == std::string_view(kSizes) && !is_kept) return out;
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      const auto values = acts(rank) ? part.expected(*this, ranks_[rank]) : List();
      comparison.expected.push_back(values ? int64_values(*values) : seen[rank]);
    }
    out.push_back(std::move(comparison));
  }
  return out;
}

}  // namespace lockstep::scenarios::programs
