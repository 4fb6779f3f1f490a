#include "scenarios/buffers/averaged.h"

namespace lockstep::scenarios::averaged_buffers {

namespace {

void average(State& state) {
  double sum = 0;
  for (const double each : state.means) sum += each;
  for (double& each : state.means) each = sum / static_cast<double>(state.means.size());
}

void become(State& state, size_t rank) {
  state.means.assign(state.means.size(), double{state.means[rank]});
  state.counts.assign(state.counts.size(), int64_t{state.counts[rank]});
}

}  // namespace

std::vector<Forward> forwards_of(const Averaged& c) {
  auto all = c.forwards.empty() ? std::vector{Forward::synced} : c.forwards;
  if (!c.inputs.empty()) all.push_back(Forward::synced);
  return all;
}

bool is_behind_the_join(const Averaged& c, size_t forward) {
  return !c.inputs.empty() && forward + 1 == forwards_of(c).size();
}

bool makes(const Averaged& c, int rank, size_t forward) {
  if (c.inputs.empty() || is_behind_the_join(c, forward)) return true;
  return static_cast<int>(forward) < c.inputs[static_cast<size_t>(rank) % c.inputs.size()];
}

int64_t added(size_t forward, int rank) {
  return static_cast<int64_t>(forward + 1) * (rank + 1);
}

Followed followed(const Averaged& c, Mistake mistake) {
  const auto ranks = static_cast<size_t>(c.world.size);
  State now{.means = std::vector<double>(ranks, kStart), .counts = std::vector<int64_t>(ranks)};
  const bool is_before = (c.place == Place::before_forward) != (mistake == Mistake::other_place);
  size_t last_to_join = ranks - 1;
  const auto synchronise = [&] {
    if (mistake == Mistake::broadcast)
      become(now, c.inputs.empty() ? 0 : last_to_join);
    else if (mistake != Mistake::never)
      average(now);
  };
  Followed out;
  bool next = true;
  const auto kinds = forwards_of(c);
  for (size_t f = 0; f < kinds.size(); ++f) {
    const auto kind = kinds[f];
    if (is_behind_the_join(c, f)) {
      become(now, last_to_join);
      out.joined = now;
      next = true;
    }
    std::vector<size_t> who;
    for (size_t rank = 0; rank < ranks; ++rank)
      if (makes(c, static_cast<int>(rank), f)) who.push_back(rank);
    const bool is_due = (c.buffer_sync_lag ? next : kind != Forward::no_sync) ||
                        mistake == Mistake::in_every_forward;
    // Without gradients and buffers to be sent, ranks do not look who has inputs.
    if (!who.empty() && (is_due || kind != Forward::no_grad)) last_to_join = who.back();
    if (!who.empty() && is_due && is_before) synchronise();
    out.in.push_back(now);
    if (kind != Forward::eval)
      for (const auto rank : who) {
        now.means[rank] += static_cast<double>(added(f, static_cast<int>(rank)));
        now.counts[rank] += added(f, static_cast<int>(rank));
      }
    if (!who.empty() && is_due && !is_before && kind != Forward::throws) synchronise();
    out.after.push_back(now);
    if (kind != Forward::throws) next = kind == Forward::synced || kind == Forward::eval;
  }
  return out;
}

}  // namespace lockstep::scenarios::averaged_buffers
