#include "harness/accelerator/stream_order.h"

#include <algorithm>
#include <utility>

namespace lockstep::accelerator {

namespace {

void join(Clock& into, const Clock& other) {
  if (into.size() < other.size()) into.resize(other.size());
  for (std::size_t i = 0; i < other.size(); ++i) into[i] = std::max(into[i], other[i]);
}

std::uint64_t count_of(const Clock& clock, std::size_t stream) {
  return stream < clock.size() ? clock[stream] : 0;
}

std::uintptr_t overlap(const Access& one, const Access& other) {
  const std::uintptr_t begin = std::max(one.begin, other.begin);
  const std::uintptr_t end = std::min(one.end, other.end);
  return begin < end ? end - begin : 0;
}

Hazard::Kind kind_of(const Access& later, const Access& earlier, bool is_allocation) {
  if (is_allocation) return Hazard::Kind::kUsedBeforeOwned;
  if (!later.writes) return Hazard::Kind::kReadOfWrite;
  return earlier.writes ? Hazard::Kind::kWriteOfWrite : Hazard::Kind::kWriteOfRead;
}

}  // namespace

bool covers(const Clock& now, const Clock& event) {
  for (std::size_t i = 0; i < event.size(); ++i) {
    if (event[i] > count_of(now, i)) return false;
  }
  return true;
}

std::string Hazard::sentence() const {
  const std::string size = std::to_string(bytes) + (bytes == 1 ? " byte" : " bytes");
  const std::string nothing_waits = ", and nothing makes " + later_stream + " wait for it";
  const std::string one = later + " on " + later_stream;
  const std::string other = earlier + " on " + earlier_stream;
  switch (kind) {
    case Kind::kReadOfWrite:
      return one + " reads " + size + " that " + other + " wrote" + nothing_waits;
    case Kind::kWriteOfRead:
      return one + " writes " + size + " that " + other + " reads" + nothing_waits;
    case Kind::kWriteOfWrite:
      return one + " writes " + size + " that " + other + " writes" + nothing_waits;
    case Kind::kUsedBeforeOwned:
      return one + " uses " + size + " that were allocated on " + earlier_stream +
             ", where what used them before may still run" + nothing_waits;
    case Kind::kFreedWhileUsed:
      return size + " allocated on " + later_stream + " were freed while " + other +
             " may still use them, and nothing makes " + later_stream +
             " wait for it; record_stream would";
  }
  return {};
}

std::size_t StreamOrder::add_stream(std::string name) {
  streams_.push_back({.name = std::move(name), .clock = {}});
  return streams_.size() - 1;
}

bool StreamOrder::is_over(const Use& use, const Clock& now) {
  return covers(now, use.allocated) && use.number <= count_of(now, use.stream);
}

Clock& StreamOrder::up_to_date(std::size_t stream) {
  Clock& clock = streams_.at(stream).clock;
  join(clock, host_);
  if (clock.size() <= stream) clock.resize(stream + 1);
  return clock;
}

StreamOrder::Block* StreamOrder::block_of(const Access& access) {
  auto found = blocks_.upper_bound(access.begin);
  if (found == blocks_.begin()) return nullptr;
  --found;
  return access.begin < found->second.end ? &found->second : nullptr;
}

void StreamOrder::allocate(std::uintptr_t begin, std::size_t bytes, std::size_t stream) {
  Block block{.end = begin + bytes, .stream = stream, .also_on = {}, .uses = {}};
  block.uses.push_back({.access = {.begin = begin, .end = block.end, .writes = true},
                        .stream = stream,
                        .number = 0,
                        .operation = "",
                        .allocated = up_to_date(stream)});
  blocks_.insert_or_assign(begin, std::move(block));
}

void StreamOrder::use_on(std::uintptr_t begin, std::size_t stream) {
  if (Block* const block = block_of({.begin = begin})) block->also_on.insert(stream);
}

void StreamOrder::free(std::uintptr_t begin) {
  const auto found = blocks_.find(begin);
  if (found == blocks_.end()) return;
  const Block& block = found->second;
  Clock reused = up_to_date(block.stream);
  for (const std::size_t stream : block.also_on) join(reused, streams_.at(stream).clock);
  std::set<std::size_t> reported;
  for (const Use& use : block.uses) {
    if (is_over(use, reused) || !reported.insert(use.stream).second) continue;
    hazards_.push_back({.kind = Hazard::Kind::kFreedWhileUsed,
                        .earlier = use.operation,
                        .later = "",
                        .earlier_stream = streams_[use.stream].name,
                        .later_stream = streams_[block.stream].name,
                        .bytes = block.end - begin});
  }
  blocks_.erase(found);
}

// One hazard for each pair of operations, of all the bytes at which they collide.
void StreamOrder::judge(const Use& later, const Use& earlier, std::size_t first_hazard) {
  const std::uintptr_t bytes = overlap(later.access, earlier.access);
  if (bytes == 0 || !(later.access.writes || earlier.access.writes)) return;
  Hazard hazard{.kind = kind_of(later.access, earlier.access, earlier.operation.empty()),
                .earlier = earlier.operation,
                .later = later.operation,
                .earlier_stream = streams_[earlier.stream].name,
                .later_stream = streams_[later.stream].name,
                .bytes = bytes};
  const auto same = std::find_if(hazards_.begin() + static_cast<std::ptrdiff_t>(first_hazard),
                                 hazards_.end(), [&](const Hazard& each) {
                                   return each.kind == hazard.kind &&
                                          each.earlier == hazard.earlier &&
                                          each.earlier_stream == hazard.earlier_stream;
                                 });
  if (same == hazards_.end()) {
    hazards_.push_back(std::move(hazard));
  } else {
    same->bytes += bytes;
  }
}

// Uses that the new use follows and covers can be forgotten: whatever conflicts with one of them
// and does not follow it, does not follow the new one either. This does not hold for a read that
// covers a write's bytes, since reads do not conflict with it.
void StreamOrder::remember(Block& block, const Use& use, const Clock& now) {
  std::vector<Use> kept;
  for (Use& old : block.uses) {
    const bool can_be_cut = use.access.writes || !old.access.writes;
    if (!can_be_cut || overlap(use.access, old.access) == 0 || !is_over(old, now)) {
      kept.push_back(std::move(old));
      continue;
    }
    if (old.access.begin < use.access.begin) {
      kept.push_back(old);
      kept.back().access.end = use.access.begin;
    }
    if (old.access.end > use.access.end) {
      kept.push_back(std::move(old));
      kept.back().access.begin = use.access.end;
    }
  }
  kept.push_back(use);
  block.uses = std::move(kept);
}

void StreamOrder::submit(std::size_t stream, const std::string& operation,
                         const std::vector<Access>& accesses) {
  Clock& now = up_to_date(stream);
  const std::uint64_t number = ++now[stream];
  const std::size_t first_hazard = hazards_.size();
  const auto use_of = [&](const Access& access) {
    return Use{.access = access,
               .stream = stream,
               .number = number,
               .operation = operation,
               .allocated = {}};
  };
  // All are checked before any is remembered: one operation cannot conflict with itself.
  for (const Access& access : accesses) {
    const Block* const block = block_of(access);
    if (block == nullptr) continue;
    for (const Use& earlier : block->uses) {
      if (!is_over(earlier, now)) judge(use_of(access), earlier, first_hazard);
    }
  }
  for (const Access& access : accesses) {
    Block* const block = block_of(access);
    if (block != nullptr && access.begin < access.end) remember(*block, use_of(access), now);
  }
}

Clock StreamOrder::record(std::size_t stream) {
  return up_to_date(stream);
}

void StreamOrder::wait(std::size_t stream, const Clock& event) {
  join(up_to_date(stream), event);
}

void StreamOrder::host_wait(const Clock& event) {
  join(host_, event);
}

}  // namespace lockstep::accelerator
