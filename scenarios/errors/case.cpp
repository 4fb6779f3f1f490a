#include "scenarios/errors/case.h"

#include "harness/base/values.h"

#include <algorithm>
#include <cmath>

namespace lockstep::scenarios::errors {

namespace {

constexpr uint64_t kLargestFactor = 7;

double whole_number(const Erring& c, int step, int pass, int rank, size_t parameter) {
  const auto bits = bits_at({.seed = c.seed,
                             .stream = Stream::cotangent,
                             .rank = static_cast<uint64_t>(rank),
                             .step = static_cast<uint64_t>(8 * step + pass),
                             .index = parameter});
  return std::pow(c.world.size, c.steps) * static_cast<double>(1 + bits % kLargestFactor);
}

// Some pass has ended well.
bool is_between_passes(const Erring& c) {
  return c.mistake.step % c.steps > 0 && c.lacks.empty();
}

}  // namespace

std::string name_of(size_t parameter) {
  return "w" + std::to_string(parameter);
}

std::string planted(size_t parameter, int rank) {
  return "planted in " + name_of(parameter) + " of rank " + std::to_string(rank);
}

bool is_among(const Ranks& ranks, int rank, int world_size) {
  return ranks.empty() || std::any_of(ranks.begin(), ranks.end(),
                                      [&](int each) { return each % world_size == rank; });
}

bool is_of_all_ranks(const Erring& c) {
  for (int rank = 0; rank < c.world.size; ++rank)
    if (!is_among(c.mistake.ranks, rank, c.world.size)) return false;
  return true;
}

// Behind a local forward no buffer is sent.
bool sends_buffer(const Erring& c) {
  return c.buffer && c.options.broadcast_buffers && c.local_passes == 0;
}

bool errs(const Erring& c, int step, int rank) {
  if (c.mistake.kind == MistakeKind::late && is_of_all_ranks(c)) return false;
  if (c.mistake.kind == MistakeKind::forward_twice && c.buffer) return false;
  if (c.mistake.kind == MistakeKind::buffer_converted && !sends_buffer(c)) return false;
  if (c.mistake.kind == MistakeKind::hook_loaded && !is_between_passes(c)) return false;
  return c.mistake.kind != MistakeKind::none && c.mistake.step % c.steps == step &&
         is_among(c.mistake.ranks, rank, c.world.size);
}

bool ranks_part(const Erring& c, int step) {
  if (c.mistake.kind != MistakeKind::forward_twice || is_of_all_ranks(c)) return false;
  for (int rank = 0; rank < c.world.size; ++rank)
    if (errs(c, step, rank)) return true;
  return false;
}

size_t mistaken_parameter(const Erring& c) {
  return static_cast<size_t>(c.mistake.parameter) % parameter_count(c);
}

bool registers(MistakeKind kind) {
  return kind == MistakeKind::registered || kind == MistakeKind::registered_buffer ||
         kind == MistakeKind::registered_module;
}

bool begins_anew(const Erring& c) {
  const auto kind = c.mistake.kind;
  if (kind == MistakeKind::late) return !is_of_all_ranks(c);
  return kind == MistakeKind::throw_in_forward || kind == MistakeKind::frozen ||
         kind == MistakeKind::converted || kind == MistakeKind::strided ||
         kind == MistakeKind::unhooked || registers(kind) || kind == MistakeKind::reported ||
         (kind == MistakeKind::buffer_converted && sends_buffer(c)) ||
         (kind == MistakeKind::hook_loaded && is_between_passes(c)) ||
         kind == MistakeKind::forward_in_backward;
}

// Errors in backward, after the forward that was skipped, name that forward.
std::string why_nothing_may_come_before(const Erring& c) {
  if (c.updates_before && !registers(c.mistake.kind))
    return "ranks update only before a mistake that registers something";
  const bool ends_in_forward = begins_anew(c) && c.mistake.kind != MistakeKind::late &&
                               c.mistake.kind != MistakeKind::forward_in_backward;
  if (c.skips_before && !ends_in_forward)
    return "ranks skip a forward only before a mistake that a forward ends with";
  return "";
}

bool leaves_peers_waiting(const Erring& c) {
  const bool issues_all = c.mistake.kind == MistakeKind::forward_in_backward;
  return !is_of_all_ranks(c) && (goes_out_of_step(c) || (begins_anew(c) && !issues_all));
}

bool is_left_waiting(const Erring& c, int step, int rank) {
  return begins_anew(c) && leaves_peers_waiting(c) && c.mistake.step % c.steps == step &&
         !errs(c, step, rank);
}

bool goes_out_of_step(const Erring& c) {
  return c.mistake.kind == MistakeKind::skipped && !is_of_all_ranks(c);
}

std::optional<LackKind> lack_of(const Erring& c, int step, int rank, size_t parameter, bool local) {
  if (goes_out_of_step(c)) return {};
  if (!local && errs(c, step, rank) && mistaken_parameter(c) == parameter)
    return c.mistake.kind == MistakeKind::in_the_loss ? std::optional(LackKind::unused)
                                                      : std::nullopt;
  for (const auto& each : c.lacks)
    if (each.step % c.steps == step &&
        static_cast<size_t>(each.parameter) % parameter_count(c) == parameter &&
        each.local == local && is_among(each.ranks, rank, c.world.size))
      return each.how;
  return {};
}

std::vector<size_t> order_of(const Erring& c, int rank) {
  const auto count = parameter_count(c);
  std::vector<size_t> order;
  for (size_t i = 0; i < count; ++i)
    order.push_back((i + (c.order_by_rank ? static_cast<size_t>(rank) : 0)) % count);
  return order;
}

double coefficient(const Erring& c, int step, int pass, int rank, size_t parameter) {
  return whole_number(c, step, pass, rank, parameter);
}

// Drawn with a pass number that no case has.
double surplus(const Erring& c, int step, int rank, size_t parameter) {
  return whole_number(c, step, 7, rank, parameter);
}

double own_number(const Erring& c, int step, int rank, size_t parameter) {
  return whole_number(c, step, 6, rank, parameter);
}

}  // namespace lockstep::scenarios::errors
