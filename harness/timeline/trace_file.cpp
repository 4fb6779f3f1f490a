// The format: https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
#include "harness/timeline/timeline.h"

#include <ostream>

namespace lockstep::recorded {

namespace {

// The tracks of a rank, in the order in which a viewer shows them.
enum Track { kSteps = 1, kProgram = 2, kCollectives = 3 };

// Writes events one after the other: a run may have millions.
class Events {
 public:
  Events(std::ostream& out, int64_t begin_ns) : out_(out), begin_ns_(begin_ns) {
    out_ << "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[";
  }
  ~Events() { out_ << "\n]}\n"; }
  Events(const Events&) = delete;

  // Microseconds, of which viewers keep the fraction.
  double at(int64_t ns) const { return static_cast<double>(ns - begin_ns_) / 1e3; }

  void add(const char* kind, size_t rank, Track track, const std::string& name, Json rest) {
    Json event{{"ph", kind}, {"pid", rank}, {"tid", static_cast<int>(track)}, {"name", name}};
    event.update(rest);
    out_ << (is_first_ ? "\n" : ",\n")
         << event.dump(-1, ' ', false, Json::error_handler_t::replace);
    is_first_ = false;
  }

  void span(size_t rank, Track track, const std::string& name, int64_t from, int64_t to) {
    add("X", rank, track, name, {{"ts", at(from)}, {"dur", static_cast<double>(to - from) / 1e3}});
  }

 private:
  std::ostream& out_;
  const int64_t begin_ns_;
  bool is_first_ = true;
};

void add_names(Events& events, size_t rank) {
  const auto number = "rank " + std::to_string(rank);
  events.add("M", rank, kSteps, "process_name", {{"args", {{"name", number}}}});
  events.add("M", rank, kSteps, "process_sort_index", {{"args", {{"sort_index", rank}}}});
  for (const auto& [track, name] :
       {std::pair{kSteps, "steps"}, {kProgram, "program"}, {kCollectives, "collectives"}})
    events.add("M", rank, track, "thread_name", {{"args", {{"name", name}}}});
}

Json details_of(const TimedCollective& each) {
  Json args{{"group", each.is.group},
            {"sequence", each.is.sequence},
            {"dtype", each.is.dtype},
            {"elements", each.is.elements}};
  if (each.is.root >= 0) args["root"] = each.is.root;
  if (each.is.bucket) args["bucket"] = text_of(*each.is.bucket);
  if (each.last_rank >= 0) {
    args["last"] = "rank " + std::to_string(each.last_rank);
    args["waited_us"] = static_cast<double>(each.waited_ns) / 1e3;
  }
  if (each.to_ns < 0) args["end"] = "not known to be done";
  return args;
}

// Several collectives of a rank may be under way at once, so that each is an event with an id.
void add_collective(Events& events, size_t rank, size_t number, const TimedCollective& each) {
  const auto id = std::to_string(rank) + "." + std::to_string(number);
  Json begin{{"cat", "collective"}, {"id", id}, {"ts", events.at(each.from_ns)}};
  begin["args"] = details_of(each);
  events.add("b", rank, kCollectives, each.is.op, std::move(begin));
  if (each.to_ns >= 0)
    events.add("e", rank, kCollectives, each.is.op,
               {{"cat", "collective"}, {"id", id}, {"ts", events.at(each.to_ns)}});
}

}  // namespace

void write_trace(const RecordedRun& run, const Timeline& timeline, std::ostream& out) {
  Events events(out, timeline.begin_ns);
  for (size_t rank = 0; rank < run.ranks.size(); ++rank) {
    const auto& of = timeline.ranks[rank];
    add_names(events, rank);
    for (const auto& step : of.steps)
      events.span(rank, kSteps, "step " + std::to_string(step.number), step.from_ns, step.to_ns);
    for (const auto& span : of.spans)
      events.span(rank, kProgram, span.name, span.from_ns, span.to_ns);
    for (size_t number = 0; number < of.collectives.size(); ++number)
      add_collective(events, rank, number, of.collectives[number]);
  }
}

}  // namespace lockstep::recorded
