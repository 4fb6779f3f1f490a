#include "harness/history/history_reader.h"

#include "harness/base/characters.h"
#include "harness/base/fields.h"
#include "harness/base/text.h"

#include <utility>

namespace lockstep {

namespace {

// Each event and record that follows has a copy of its phase.
constexpr size_t kPhaseBytesMost = 200;

const Json& part(const Json& header, const char* name, const std::string& where) {
  if (!header.is_object() || !header.contains(name))
    throw FieldError(where + ": no '" + name + "' in " + excerpt(header.dump()));
  return header[name];
}

template <class T>
T required(const Json& header, const char* name, const std::string& where,
           const Allowed& allowed = {}) {
  T value{};
  fields::read(part(header, name, where), value, allowed, where + "." + name, Reading::any_part);
  return value;
}

std::string line_in(const Json& header, const char* name, const std::string& where) {
  return one_line(required<std::string>(header, name, where));
}

// -1 where it is not there.
template <class T>
T number_or_none(const Json& header, const char* name, const std::string& where) {
  return header.is_object() && header.contains(name) ? required<T>(header, name, where) : T{-1};
}

constexpr int64_t kElementsMost = int64_t{1} << 48;  // so that sums of them stay within their type

Collective collective_in(const Json& header, const std::string& where) {
  return {.op = line_in(header, "op", where),
          .group = line_in(header, "group", where),
          .dtype = line_in(header, "dtype", where),
          .sequence = required<int64_t>(header, "sequence", where),
          .elements = required<int64_t>(header, "elements", where, between(0, kElementsMost)),
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
    auto names = required<std::vector<std::string>>(buckets[i], "parameters", at);
    for (auto& name : names) name = one_line(name);
    layout.buckets.push_back({std::move(names), required<int64_t>(buckets[i], "elements", at)});
  }
  return layout;
}

Observation observation_in(const Frame& frame, const std::string& where) {
  return {line_in(frame.header, "name", where),
          TensorValue{line_in(frame.header, "dtype", where),
                      required<std::vector<int64_t>>(frame.header, "shape", where), frame.payload}};
}

Injection injection_in(const Json& header, const std::string& where) {
  auto injection = from_json<Injection>(header, where);
  injection.at.phase = one_line(injection.at.phase);
  return injection;
}

}  // namespace

Moment moment_in(const Json& header, const std::string& where) {
  auto moment = from_json<Moment>(header, where);
  moment.phase = one_line(moment.phase);
  if (moment.phase.size() > kPhaseBytesMost) throw FieldError(where + ": 'phase' is too long");
  return moment;
}

HistoryReader::HistoryReader(std::string whose) : whose_(std::move(whose)) {
  rank_.ending = {Ending::Kind::cut_off, "no ending was recorded"};
}

void HistoryReader::take_issued(const Json& header, const std::string& where) {
  auto issued = collective_in(header, where);
  issued.bucket = buckets_.match(issued);
  issued_[issued.group][issued.sequence] = rank_.events.size();
  add(std::move(issued));
}

void HistoryReader::take_done(const Json& header, const std::string& where) {
  const auto group = issued_.find(line_in(header, "group", where));
  const auto sequence = required<int64_t>(header, "sequence", where);
  const auto ns = number_or_none<int64_t>(header, "ns", where);
  if (group == issued_.end()) return;
  const auto event = group->second.find(sequence);
  if (event == group->second.end()) return;
  auto& collective = std::get<Collective>(rank_.events[event->second].what);
  collective.done = true;
  collective.times.done_ns = ns;
}

void HistoryReader::take_ending(const Json& header, const std::string& where) {
  const auto name = required<std::string>(header, "kind", where);
  const auto kind = value_of_word<Ending::Kind>(name);
  if (!kind) throw FieldError(where + ": unknown ending '" + excerpt(one_line(name)) + "'");
  rank_.ending = {*kind,
                  legible(required<std::string>(header, "why", where)),
                  {number_or_none<int64_t>(header, "ns", where)}};
}

void HistoryReader::take(const Frame& frame, size_t number) {
  const Json& header = frame.header;
  const std::string where = whose_ + ", record " + std::to_string(number);
  switch (frame.kind) {
    case FrameKind::begin:
      if (required<int>(header, "protocol", where) != kProtocol)
        throw FieldError(where + ": protocol " + header["protocol"].dump() +
                         "; this program reads " + std::to_string(kProtocol));
      return;
    case FrameKind::moment:
      rank_.last = moment_in(header, where);
      return;
    case FrameKind::observation:
      return add(observation_in(frame, where));
    case FrameKind::issued:
      return take_issued(header, where);
    case FrameKind::done:
      return take_done(header, where);
    case FrameKind::injection:
      return add(injection_in(header, where));
    case FrameKind::left_behind:
      return add(LeftBehind{legible(required<std::string>(header, "what", where))});
    case FrameKind::site:
      required<int>(header, "site", where);
      return;
    case FrameKind::layout: {
      auto layout = layout_in(header, where);
      buckets_.use(layout);
      return add(std::move(layout));
    }
    case FrameKind::ending:
      return take_ending(header, where);
    default:
      throw FieldError(where + ": unknown kind " +
                       std::to_string(static_cast<uint32_t>(frame.kind)));
  }
}

RankHistory rank_history(const Frames& frames, const std::string& whose) {
  HistoryReader reader(whose);
  for (size_t number = 0; number < frames.frames.size(); ++number)
    reader.take(frames.frames[number], number);
  return reader.finish();
}

}  // namespace lockstep
