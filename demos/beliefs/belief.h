// A belief that many hold of data-parallel training, which is true on a condition. Its program runs
// twice in one world: where the condition is not met, and where it is. From what the ranks
// recorded of each run it is computed whether the belief held there; the checks require that it
// held exactly where its condition was met. Planting one of the mistakes makes the two runs alike,
// and the finding changes.
#pragma once

#include "demos/make.h"
#include "harness/rank/rank_context.h"

namespace lockstep::demos::beliefs {

enum class Condition { unmet, met };

// One of the two runs, on one rank. Records are under its own name, in numbered steps.
class Run {
 public:
  Run(RankContext& here, Condition recorded_as, Condition condition)
      : here_(here), recorded_as_(recorded_as), condition_(condition) {}
  RankContext& here() const { return here_; }
  int rank() const { return here_.rank(); }
  int world() const { return here_.size(); }
  bool is_met() const { return condition_ == Condition::met; }
  void enter(int step) const;

  // In step 0, unless another was entered.
  void record(const std::string& name, const at::Tensor& value) const { here_.record(name, value); }
  void record(const std::string& name, double value) const;
  void record(const std::string& name, const std::vector<int64_t>& values) const {
    here_.record(name, values);
  }

 private:
  RankContext& here_;
  const Condition recorded_as_, condition_;
};

// The records of all ranks from one run.
class Records {
 public:
  Records(const History& history, Condition run) : history_(history), run_(run) {}
  int world() const { return history_.size(); }
  bool has(const std::string& name, int step = 0) const;

  // All numbers of a rank's record, and the first number of each rank's. Throw NotSeen.
  std::vector<double> numbers(int rank, const std::string& name, int step = 0) const;
  std::vector<double> by_rank(const std::string& name, int step = 0) const;

  // How many collectives of this kind rank 0 issued in a step: "allreduce".
  int64_t collectives(const std::string& op, int step = 0) const;

  const RankHistory& rank(int rank) const { return history_.ranks()[static_cast<size_t>(rank)]; }

 private:
  Moment moment(int step) const;
  const History& history_;
  const Condition run_;
};

// True if all are the same, and if two are as far as rounding goes.
bool all_same(const std::vector<double>& values);
bool is_close(double a, double b);
bool all_close(const std::vector<double>& values, double right);

// The result that a run shows: a table with a row for each rank.
struct Outcome {
  struct Column {
    std::string name;
    std::vector<std::string> by_rank;
    std::string one_process = "";
  };
  bool holds = false;
  std::string fact;  // half a sentence, of what was recorded
  std::vector<Column> columns;
};

// A column of a record's numbers, at most the first eight of each rank.
Outcome::Column column(const std::string& title, const Records& records, const std::string& name,
                       int step = 0);
Outcome::Column column(const std::string& title, const Records& records, const std::string& name,
                       int step, double one_process);

// It holds where the ranks hold what one process has; "the ranks report 0.5, one process has 0.25".
Outcome beside_one_process(const std::string& said, const std::vector<double>& held, double alone,
                           std::vector<Outcome::Column> columns);

struct BeliefSpec {
  int number = 0;
  std::string belief;      // as it is held
  std::string condition;   // where it is true
  std::string text;        // what the ranks do
  std::string unmet, met;  // the two runs: "with 10 samples"
  void (*program)(const Run& run);
  Outcome (*outcome)(const Records& records);
  std::string proof = "";  // the scenario that proves what is true of it for all cases
  // Whether the condition is met in the first run too, in a world of this size.
  bool (*is_met_anyway)(int world) = nullptr;
  // The first run never ends, so that the second is run before it, and how ranks end is shown.
  bool shows_endings = false;
};

template <int kDefault, int kLeast, int kMost>
struct OfWorld {
  int world = kDefault;
  auto operator<=>(const OfWorld&) const = default;
  static constexpr auto fields() {
    return std::tuple{field("world", &OfWorld::world, between(kLeast, kMost))};
  }
};

inline constexpr char kUnmet[] = "condition_unmet", kMet[] = "condition_met";

// `made` with the program, the checks and the story of a belief.
Demo finished(Demo made, const BeliefSpec& spec);

template <int kDefault = 2, int kLeast = 2, int kMost = 6>
Demo belief(const BeliefSpec& spec) {
  using Settings = OfWorld<kDefault, kLeast, kMost>;
  return finished(
      demo<Settings>({.name = "belief-" + std::to_string(spec.number),
                      .lesson = spec.belief,
                      .text = "",
                      .proof = spec.proof,
                      .meanings = {"number of ranks"},
                      .mistakes = {{kUnmet, "the condition is not met in the second run either"},
                                   {kMet, "the condition is met in the first run too"}},
                      .refusal = nullptr,
                      .program = nullptr,
                      .checks = {},
                      .show = nullptr}),
      spec);
}

}  // namespace lockstep::demos::beliefs
