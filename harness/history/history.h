// The observations of each rank, in order; a check sees nothing else.
#pragma once

#include "harness/base/case.h"
#include "harness/base/words.h"

#include <chrono>
#include <cstddef>
#include <optional>
#include <variant>

namespace lockstep {

// A tensor without LibTorch: elements in row-major order, as the machine holds them. `dtype` is
// torch's own word: "float32", "float64", "int64", "int32", "uint8", "bool", ...
struct TensorValue {
  std::string dtype;
  std::vector<int64_t> shape;
  std::vector<std::byte> bytes;
  bool operator==(const TensorValue&) const = default;
};

// Every element as a double; integers above 2^53 lose their last bits. Throws std::invalid_argument
// for a dtype without such a conversion.
std::vector<double> as_doubles(const TensorValue& value);
std::vector<int64_t> as_integers(const TensorValue& value);  // throws for a floating dtype
TensorValue int64_values(const std::vector<int64_t>& values);
std::string shape_text(const TensorValue& value);  // "float32[2, 3]"

struct Observation {
  std::string name;
  TensorValue value;
  bool operator==(const Observation&) const = default;
};

// A time in nanoseconds of a clock that the ranks of a world share: a machine's monotonic one, or
// the virtual one of a simulated world. -1 where it did not happen or is unknown. Never part of a
// comparison or a hash.
struct Times {
  int64_t queued_ns = -1, done_ns = -1;
  bool operator==(const Times&) const { return true; }
};

// The number of one of the rank's call sites, -1 where it is unknown. Meaningful only beside the
// rank's own records, and not part of a comparison either.
struct CallSite {
  int number = -1;
  bool operator==(const CallSite&) const { return true; }
};

// The gradients that the subject reduces together, as it publishes them, in the order in which it
// launches them: the names of the parameters, and how many elements travel. In force until the next
// layout.
struct BucketLayout {
  struct Bucket {
    std::vector<std::string> parameters;
    int64_t elements = 0;
    bool operator==(const Bucket&) const = default;
  };
  std::vector<Bucket> buckets;
  bool operator==(const BucketLayout&) const = default;
};

// Which bucket of the layout in force a collective can be.
struct BucketOfLayout {
  size_t number = 0, of = 0;
  std::vector<std::string> parameters;
  bool operator==(const BucketOfLayout&) const = default;
};
std::string number_text(const BucketOfLayout& bucket);  // "bucket 1 of 2"
std::string text_of(const BucketOfLayout& bucket);      // "bucket 1 of 2: w, b"

// A collective as a rank issued it, written before the backend saw it. `sequence` counts this
// rank's collectives of this group from 0; `elements` and `dtype` describe what it sends. `root` is
// -1 where the operation has none. `bucket` is empty where there is no layout, or where it is no
// bucket.
struct Collective {
  std::string op, group, dtype;
  int64_t sequence = 0, elements = 0;
  int root = -1;
  bool done = false;  // the rank saw it complete
  Times times;
  CallSite site;
  std::optional<BucketOfLayout> bucket;
  bool operator==(const Collective&) const = default;
};

// Something that a rank must not leave behind when its program returned.
struct LeftBehind {
  std::string what;
  bool operator==(const LeftBehind&) const = default;
};

struct Event {
  Moment at;
  std::variant<Observation, Collective, BucketLayout, Injection, LeftBehind> what;
  bool operator==(const Event&) const = default;
};

// In nanoseconds of the machine's monotonic clock; -1 where unknown. Comparisons ignore it.
struct Instant {
  int64_t ns = -1;
  bool operator==(const Instant&) const { return true; }
};

// How a rank ended. `refused`: the subject lacks what the case wants; `stuck`: it was late, or
// nothing could wake it; `overflowed`: its journal could not hold more; `cut_off`: it was killed
// because another rank had ended badly or the run was stopped. `why` is the text of the exception,
// the name of the signal ("SIGSEGV"), the exit status ("3"), or why it is stuck where that is
// known.
struct Ending {
  enum class Kind { returned, refused, threw, exited, signalled, stuck, overflowed, cut_off };
  Kind kind = Kind::returned;
  std::string why;
  Instant at;  // where the rank itself recorded it
  bool operator==(const Ending&) const = default;
};
std::string_view name_of(Ending::Kind kind);

// Why a rank is stuck whose process or thread a signal has stopped.
inline constexpr const char* kStopped = "it was stopped";

struct RankHistory {
  std::vector<Event> events;
  Ending ending;
  Moment last;  // the last moment entered, with or without observations
  bool operator==(const RankHistory&) const = default;
};

// One name at one moment, as every rank observed it; by_rank is indexed by rank.
struct Row {
  Moment at;
  std::string name;
  std::vector<TensorValue> by_rank;
};

// A check requested something that not every rank observed: a fail. `rank` lacks an observation
// that another rank has; -1 where no rank has it.
struct NotSeen : std::runtime_error {
  explicit NotSeen(const std::string& what, int rank = -1) : runtime_error(what), rank(rank) {}
  int rank;
};

// The schedules in which a simulated world ran a case that asks for all of them (Schedule,
// "exhaustive"). Comparisons ignore them.
struct SchedulesTried {
  int64_t count = 0;         // 0: the case does not ask for all
  bool complete = true;      // there is no other schedule
  int decisions = 0;         // otherwise: none that differs in the first so many choices
  std::vector<int> choices;  // of the schedule that the history is of
  bool operator==(const SchedulesTried&) const { return true; }
};

class History {
 public:
  History() = default;
  explicit History(std::vector<RankHistory> ranks, SchedulesTried schedules = {})
      : ranks_(std::move(ranks)), schedules_(std::move(schedules)) {}

  const std::vector<RankHistory>& ranks() const { return ranks_; }
  const SchedulesTried& schedules() const { return schedules_; }
  int size() const { return static_cast<int>(ranks_.size()); }

  // All rows of a phase, in rank 0's order. Throws NotSeen if there is none, or if a rank lacks
  // one.
  std::vector<Row> rows(std::string_view phase) const;

  // Throws NotSeen, naming the moment, the name and the rank that lacks it. Where a program
  // recorded a name twice at one moment the last record counts.
  Row row(const Moment& at, std::string_view name) const;

  // Every collective of one rank, in the order it issued them.
  std::vector<Collective> collectives(int rank) const;

  // Those it issued at one moment.
  std::vector<Collective> collectives(int rank, const Moment& at) const;

  bool operator==(const History&) const = default;

 private:
  std::vector<RankHistory> ranks_;
  SchedulesTried schedules_;
};

// Identifies a history: everything but times and the texts of exceptions, which contain times, so
// that the same case gives the same hash.
std::string hash_of(const History& history);

}  // namespace lockstep
