#include "harness/history/frames.h"

#include "harness/base/parse_json.h"
#include "harness/base/spelled_json.h"
#include "harness/history/history_file.h"
#include "harness/history/history_reader.h"

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

// A program may have names that are no text, and a writer may not mind.
Json parsed_header(const std::string& text) {
  try {
    return parse_json(text, "its header");
  } catch (const NotJson&) {
    const auto spelled = with_characters_spelled(text);
    if (spelled == text) throw;
    return parse_json(spelled, "its header");
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

std::string for_each_frame(const std::byte* bytes, size_t size,
                           const std::function<void(Frame frame, size_t number)>& take) {
  size_t number = 0;
  for (size_t at = 0; at < size; ++number) {
    const auto stop = [&](const std::string& why) {
      return "record " + std::to_string(number) + ": " + why;
    };
    Lengths lengths{};
    if (size - at < kFrameFixedBytes) return stop("the file ends inside it");
    std::memcpy(&lengths, bytes + at, sizeof(lengths));
    if (lengths.payload > size || framed_size(lengths.header, lengths.payload) > size - at)
      return stop("it says it is longer than what is left");
    const size_t length = framed_size(lengths.header, lengths.payload);
    uint64_t commit = 0;
    std::memcpy(&commit, bytes + at + length - sizeof(commit), sizeof(commit));
    if (commit != (kCommit ^ number)) return stop("its commit word is missing or wrong");
    const auto* header = reinterpret_cast<const char*>(bytes + at + sizeof(lengths));
    Frame frame{static_cast<FrameKind>(lengths.kind), {}, {}};
    try {
      frame.header = parsed_header({header, lengths.header});
    } catch (const FieldError& error) {
      return stop(error.what());
    }
    const auto* payload = bytes + at + sizeof(lengths) + lengths.header;
    frame.payload.assign(payload, payload + lengths.payload);
    take(std::move(frame), number);
    at += length;
  }
  return "";
}

Frames read_frames(const std::byte* bytes, size_t size) {
  Frames out;
  out.tail = for_each_frame(
      bytes, size, [&](Frame frame, size_t /*number*/) { out.frames.push_back(std::move(frame)); });
  return out;
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
