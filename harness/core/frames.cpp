#include "harness/core/frames.h"

#include "harness/core/bucket_matcher.h"
#include "harness/core/history_file.h"
#include "harness/core/parse_json.h"
#include "harness/core/text.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace lockstep {

namespace {

size_t padded(size_t bytes) {
  return (bytes + 7) & ~size_t{7};
}

struct Lengths {
  uint32_t header;
  uint32_t kind;
  uint64_t payload;
};
static_assert(sizeof(Lengths) == 16);

const Json& part(const Json& header, const char* name, const std::string& where) {
  if (!header.is_object() || !header.contains(name))
    throw FieldError(where + ": no '" + name + "' in " + excerpt(header.dump()));
  return header[name];
}

template <class T>
T required(const Json& header, const char* name, const std::string& where) {
  T value{};
  fields::read(part(header, name, where), value, Allowed{}, where + "." + name,
               Absent::keeps_default);
  return value;
}

// -1 where it is not there.
template <class T>
T number_or_none(const Json& header, const char* name, const std::string& where) {
  return header.is_object() && header.contains(name) ? required<T>(header, name, where) : T{-1};
}

Collective collective_in(const Json& header, const std::string& where) {
  return {.op = required<std::string>(header, "op", where),
          .group = required<std::string>(header, "group", where),
          .dtype = required<std::string>(header, "dtype", where),
          .sequence = required<int64_t>(header, "sequence", where),
          .elements = required<int64_t>(header, "elements", where),
          .root = required<int>(header, "root", where),
          .times = {.queued_ns = number_or_none<int64_t>(header, "ns", where)},
          .site = {number_or_none<int>(header, "site", where)}};
}

BucketLayout layout_in(const Json& header, const std::string& where) {
  BucketLayout layout;
  const auto& buckets = part(header, "buckets", where);
  if (!buckets.is_array()) fields::refuse(where + ".buckets", buckets, "a list");
  for (size_t i = 0; i < buckets.size(); ++i) {
    const auto at = where + ".buckets[" + std::to_string(i) + "]";
    layout.buckets.push_back({required<std::vector<std::string>>(buckets[i], "parameters", at),
                              required<int64_t>(buckets[i], "elements", at)});
  }
  return layout;
}

Observation observation_in(const Frame& frame, const std::string& where) {
  return {required<std::string>(frame.header, "name", where),
          TensorValue{required<std::string>(frame.header, "dtype", where),
                      required<std::vector<int64_t>>(frame.header, "shape", where), frame.payload}};
}

void mark_done(RankHistory& rank, const std::string& group, int64_t sequence, int64_t ns) {
  for (auto event = rank.events.rbegin(); event != rank.events.rend(); ++event) {
    auto* collective = std::get_if<Collective>(&event->what);
    if (!collective || collective->sequence != sequence || collective->group != group) continue;
    collective->done = true;
    collective->times.done_ns = ns;
    return;
  }
}

void append(std::string& out, uint64_t& number, FrameKind kind, const std::string& text,
            const std::vector<std::byte>& payload = {}) {
  const size_t begin = out.size();
  out.resize(begin + framed_size(text.size(), payload.size()));
  auto* commit = write_frame(reinterpret_cast<std::byte*>(out.data()) + begin, kind, text,
                             payload.data(), payload.size());
  const uint64_t word = kCommit ^ number++;
  std::memcpy(commit, &word, sizeof(word));
}

}  // namespace

size_t framed_size(size_t header_bytes, size_t payload_bytes) {
  return kFrameFixedBytes + padded(header_bytes + payload_bytes);
}

std::byte* write_frame(std::byte* to, FrameKind kind, std::string_view header, const void* payload,
                       size_t payload_bytes) {
  const Lengths lengths{static_cast<uint32_t>(header.size()), static_cast<uint32_t>(kind),
                        payload_bytes};
  std::memcpy(to, &lengths, sizeof(lengths));
  std::byte* at = to + sizeof(lengths);
  std::memcpy(at, header.data(), header.size());
  if (payload_bytes > 0) std::memcpy(at + header.size(), payload, payload_bytes);
  const size_t used = header.size() + payload_bytes;
  std::memset(at + used, 0, padded(used) - used);
  return at + padded(used);
}

Frames read_frames(const std::byte* bytes, size_t size) {
  Frames out;
  for (size_t at = 0; at < size;) {
    const auto stop = [&](const std::string& why) {
      out.tail = "record " + std::to_string(out.frames.size()) + ": " + why;
      return out;
    };
    Lengths lengths{};
    if (size - at < kFrameFixedBytes) return stop("the file ends inside it");
    std::memcpy(&lengths, bytes + at, sizeof(lengths));
    if (lengths.payload > size || framed_size(lengths.header, lengths.payload) > size - at)
      return stop("it says it is longer than what is left");
    const size_t length = framed_size(lengths.header, lengths.payload);
    uint64_t commit = 0;
    std::memcpy(&commit, bytes + at + length - sizeof(commit), sizeof(commit));
    if (commit != (kCommit ^ out.frames.size())) return stop("its commit word is missing or wrong");
    const auto* header = reinterpret_cast<const char*>(bytes + at + sizeof(lengths));
    Frame frame{static_cast<FrameKind>(lengths.kind), {}, {}};
    try {
      frame.header = parse_json({header, lengths.header}, "its header");
    } catch (const FieldError& error) {
      return stop(error.what());
    }
    const auto* payload = bytes + at + sizeof(lengths) + lengths.header;
    frame.payload.assign(payload, payload + lengths.payload);
    out.frames.push_back(std::move(frame));
    at += length;
  }
  return out;
}

RankHistory rank_history(const Frames& frames, const std::string& whose) {
  RankHistory rank;
  rank.ending = {Ending::Kind::cut_off, "no ending was recorded"};
  BucketMatcher buckets;
  for (size_t i = 0; i < frames.frames.size(); ++i) {
    const Frame& frame = frames.frames[i];
    const Json& header = frame.header;
    const std::string where = whose + ", record " + std::to_string(i);
    const auto add = [&](auto what) { rank.events.push_back({rank.last, std::move(what)}); };
    switch (frame.kind) {
      case FrameKind::begin:
        if (required<int>(header, "protocol", where) != kProtocol)
          throw FieldError(where + ": protocol " + header["protocol"].dump() +
                           "; this program reads " + std::to_string(kProtocol));
        break;
      case FrameKind::moment:
        rank.last = from_json<Moment>(header, where);
        break;
      case FrameKind::observation:
        add(observation_in(frame, where));
        break;
      case FrameKind::issued: {
        auto issued = collective_in(header, where);
        issued.bucket = buckets.match(issued);
        add(std::move(issued));
        break;
      }
      case FrameKind::done:
        mark_done(rank, required<std::string>(header, "group", where),
                  required<int64_t>(header, "sequence", where),
                  number_or_none<int64_t>(header, "ns", where));
        break;
      case FrameKind::injection:
        add(from_json<Injection>(header, where));
        break;
      case FrameKind::left_behind:
        add(LeftBehind{required<std::string>(header, "what", where)});
        break;
      case FrameKind::site:
        required<int>(header, "site", where);
        break;
      case FrameKind::layout: {
        auto layout = layout_in(header, where);
        buckets.use(layout);
        add(std::move(layout));
        break;
      }
      case FrameKind::ending: {
        const auto name = required<std::string>(header, "kind", where);
        const auto kind = ending_named(name);
        if (!kind) throw FieldError(where + ": unknown ending '" + excerpt(name) + "'");
        rank.ending = {*kind,
                       required<std::string>(header, "why", where),
                       {number_or_none<int64_t>(header, "ns", where)}};
        break;
      }
      default:
        throw FieldError(where + ": unknown kind " +
                         std::to_string(static_cast<uint32_t>(frame.kind)));
    }
  }
  return rank;
}

std::map<int, std::vector<uint64_t>> call_sites(const Frames& frames) {
  std::map<int, std::vector<uint64_t>> sites;
  for (const auto& frame : frames.frames) {
    if (frame.kind != FrameKind::site || frame.payload.size() < sizeof(uint64_t)) continue;
    const auto number = frame.header.find("site");
    if (number == frame.header.end() || !number->is_number_integer()) continue;
    auto& addresses = sites[number->get<int>()];
    addresses.resize(frame.payload.size() / sizeof(uint64_t));
    std::memcpy(addresses.data(), frame.payload.data(), addresses.size() * sizeof(uint64_t));
  }
  return sites;
}

namespace {

// Behind `out`, which has `number` records.
void append_records(std::string& out, uint64_t number, const RankHistory& rank, WithTimes times) {
  Moment at;
  const auto move_to = [&](const Moment& moment) {
    if (moment == at) return;
    at = moment;
    append(out, number, FrameKind::moment, header_of(moment));
  };
  for (const auto& event : rank.events) {
    move_to(event.at);
    if (const auto* seen = std::get_if<Observation>(&event.what)) {
      append(out, number, FrameKind::observation,
             header_of(seen->name, seen->value.dtype, seen->value.shape), seen->value.bytes);
    } else if (const auto* c = std::get_if<Collective>(&event.what)) {
      auto shown = *c;
      shown.site = {};
      if (times == WithTimes::no) shown.times = {};
      append(out, number, FrameKind::issued, header_of(shown));
      if (c->done)
        append(out, number, FrameKind::done,
               done_header(shown.group, shown.sequence, shown.times.done_ns));
    } else if (const auto* layout = std::get_if<BucketLayout>(&event.what)) {
      append(out, number, FrameKind::layout, header_of(*layout));
    } else if (const auto* struck = std::get_if<Injection>(&event.what)) {
      append(out, number, FrameKind::injection, to_json(*struck).dump());
    } else {
      append(out, number, FrameKind::left_behind,
             Json{{"what", std::get<LeftBehind>(event.what).what}}.dump());
    }
  }
  move_to(rank.last);
  const bool why_has_times = rank.ending.kind == Ending::Kind::threw;
  auto ending = rank.ending;
  if (times == WithTimes::no) ending.at = {};
  if (times == WithTimes::no && why_has_times) ending.why.clear();
  append(out, number, FrameKind::ending, header_of(ending));
}

}  // namespace

std::string frames_of(const RankHistory& rank, WithTimes times) {
  std::string out;
  append_records(out, 0, rank, times);
  return out;
}

std::string history_file(const RankHistory& rank, const HistoryOf& of) {
  std::string out;
  uint64_t number = 0;
  const Json begin{
      {"protocol", kProtocol}, {"rank", of.rank}, {"world", of.world}, {"case", of.case_hash}};
  append(out, number, FrameKind::begin, begin.dump());
  append_records(out, number, rank, WithTimes::yes);
  return out;
}

std::string history_name(int rank) {
  return "rank" + std::to_string(rank) + ".history";
}

std::vector<std::pair<std::string, std::string>> history_files_of(const Case& c,
                                                                  const History& history) {
  std::vector<std::pair<std::string, std::string>> files;
  for (int rank = 0; rank < history.size(); ++rank)
    files.emplace_back(
        history_name(rank),
        history_file(history.ranks()[static_cast<size_t>(rank)],
                     {.rank = rank, .world = history.size(), .case_hash = hash_of(c)}));
  return files;
}

}  // namespace lockstep
