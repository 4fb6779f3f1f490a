// A case: a plain value that fixes everything about a run except where it runs.
//
// Each shape of case (Sampling, Training, ... in scenarios/cases/) is a plain struct with a field
// list and a `WorldSpec world`. For campaigns, the archive and the command line a case is erased
// to its scenario's name and JSON.
#pragma once

#include "harness/base/fields.h"

#include <concepts>
#include <filesystem>
#include <optional>
#include <string>

namespace lockstep {

// A moment of a program: the training step, and the name a program gave to its phase.
struct Moment {
  int step = 0;
  std::string phase;
  auto operator<=>(const Moment&) const = default;
  static constexpr auto fields() {
    return std::tuple{field("step", &Moment::step, at_least(0)), field("phase", &Moment::phase)};
  }
};

enum class InjectionKind {
  delay,      // stands still for `amount` milliseconds
  slow,       // does so before every collective from here on
  kill,       // is killed, as by SIGKILL
  stop,       // is stopped, as by SIGSTOP
  exit,       // exits with the status `amount`
  throw_,     // throws out of its program, unless that catches it
  error,      // receives from its backend the error that the collective failed
  drop,       // receives success, though no other rank saw the collective
  duplicate,  // issues it twice
  corrupt,    // finds bit `amount` of its result flipped
  late,       // on a device with streams: finds its result there, and all later ones, `amount`
              // milliseconds late, while the host continues; elsewhere it does nothing
};

// An event the case plants in one rank: at a collective (its sequence number), or, where
// `collective` is -1, at a moment. An event that concerns a collective then strikes the next one.
// An event of another kind is another failure, not a smaller one.
struct Injection {
  InjectionKind kind = InjectionKind::delay;
  int rank = 0;
  int collective = -1;
  Moment at;
  int amount = 0;
  auto operator<=>(const Injection&) const = default;
  static constexpr auto fields() {
    return std::tuple{
        field("kind", &Injection::kind, kUnordered), field("rank", &Injection::rank, at_least(0)),
        field("collective", &Injection::collective, at_least(-1)), field("at", &Injection::at),
        field("amount", &Injection::amount, at_least(0))};
  }
};

// Chooses the rank that runs next in a simulated world, where one rank runs at a time; other worlds
// leave it to the machine.
enum class SchedulePolicy {
  listed,    // of those that can run, in ascending order, the one whose number (modulo theirs)
             // `choices` gives next; after its end the first
  uniform,   // any of them, drawn from `seed`
  priority,  // the first one in an order of all ranks drawn from `seed`; at `changes` drawn points
             // the first rank becomes the last
  exhaustive,  // every schedule, one after another, until one fails; for tiny worlds. Where there
               // are very many, those that differ in the first choices
};

// When a rank has the result of a collective in its tensors.
enum class ResultTime {
  at_once,  // when the last rank has come
  at_wait,  // when the rank itself has waited for it
  drawn,    // either, for each collective and rank by `seed`
};

struct Schedule {
  std::vector<int> choices;
  SchedulePolicy policy = SchedulePolicy::listed;
  ResultTime results = ResultTime::at_once;
  int changes = 0;
  uint64_t seed = 0;
  auto operator<=>(const Schedule&) const = default;
  static constexpr auto fields() {
    return std::tuple{field("choices", &Schedule::choices, at_least(0)),
                      field("policy", &Schedule::policy), field("results", &Schedule::results),
                      field("changes", &Schedule::changes, between(0, 1000)),
                      field("seed", &Schedule::seed)};
  }
};

// A pair of ranks between which a message takes `factor` times as long.
struct SlowLink {
  int from = 0, to = 1, factor = 1;
  auto operator<=>(const SlowLink&) const = default;
  static constexpr auto fields() {
    return std::tuple{field("from", &SlowLink::from, at_least(0)),
                      field("to", &SlowLink::to, at_least(0)),
                      field("factor", &SlowLink::factor, between(1, 1'000'000))};
  }
};

// Costs in the virtual time of a simulated world; by default nothing costs anything.
struct Timing {
  std::vector<SlowLink> slow_links;
  std::vector<int> slow_ranks;       // rank r computes slow_ranks[r] times as long, read cyclically
  int64_t latency_ns = 0;            // of a message
  int64_t megabytes_per_second = 0;  // of a link; 0: a byte costs nothing
  int64_t operation_ns = 0;          // of one operation on tensors
  int64_t picoseconds_per_element = 0;  // of its inputs
  auto operator<=>(const Timing&) const = default;
  static constexpr auto fields() {
    constexpr auto kMost = between(0, 1'000'000'000);
    return std::tuple{field("slow_links", &Timing::slow_links),
                      field("slow_ranks", &Timing::slow_ranks, between(1, 1'000'000)),
                      field("latency_ns", &Timing::latency_ns, kMost),
                      field("megabytes_per_second", &Timing::megabytes_per_second, kMost),
                      field("operation_ns", &Timing::operation_ns, kMost),
                      field("picoseconds_per_element", &Timing::picoseconds_per_element, kMost)};
  }
};

inline constexpr int kWorldMost = 1024;

enum class ReductionShape { flat, ring, tree, permuted };

// The world of a case: how many ranks, and the events planted in them. All but `injections` and
// `size` matter to simulated worlds alone.
struct WorldSpec {
  std::vector<Injection> injections;
  int size = 1;
  // The order in which a reduction takes the ranks; permuted: by schedule.seed.
  ReductionShape reduction = ReductionShape::flat;
  Schedule schedule;
  Timing timing;
  auto operator<=>(const WorldSpec&) const = default;
  static constexpr auto fields() {
    return std::tuple{field("injections", &WorldSpec::injections, {}, Cost::injections),
                      field("size", &WorldSpec::size, between(1, kWorldMost), Cost::world),
                      field("reduction", &WorldSpec::reduction, {}, Cost::schedule),
                      field("schedule", &WorldSpec::schedule, {}, Cost::schedule),
                      field("timing", &WorldSpec::timing, {}, Cost::schedule)};
  }
};

template <class C>
concept CaseType = std::default_initializable<C> && Fielded<C> && requires(const C& c) {
  { c.world } -> std::convertible_to<const WorldSpec&>;
};

struct Case {
  std::string scenario;
  Json value;
  bool operator==(const Case&) const = default;
};

// The field "world" that every shape has, and its number of ranks.
WorldSpec world_of(const Case& c);
int world_size(const Case& c);

// Names a case among all cases: sixteen hexadecimal digits of scenario and value.
std::string hash_of(const Case& c);

// The drawn case that a shrunk case comes from.
struct Origin {
  Json drawn;             // the value of the case as it was drawn
  int steps = 0;          // down from there
  bool smallest = false;  // no step further down is left, as far as they were tried
  bool operator==(const Origin&) const = default;
};

struct SavedCase {
  Case c;
  std::optional<Origin> origin = {};  // none: it is as it was drawn, or written by hand
  bool operator==(const SavedCase&) const = default;
};

// A case file: {"lockstep_case": 1, "scenario": NAME, "value": {...}}; of a shrunk case also
// "shrunk": {"drawn": {...}, "steps": N, "smallest": true}.
std::string case_file(const SavedCase& saved);

// The file has a version that this program does not know.
struct OtherVersion : FieldError {
  using FieldError::FieldError;
};

// Throws FieldError, whose text starts with `path`: an unreadable file, no JSON, another kind of
// file, a version this program does not know. The value is checked by its scenario, not here.
SavedCase read_case_file(const std::filesystem::path& path);
SavedCase parse_case_file(const std::string& text, const std::string& path);

}  // namespace lockstep
