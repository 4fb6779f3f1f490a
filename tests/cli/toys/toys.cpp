#include "tests/cli/toys/toys.h"

#include "harness/cases/generators.h"
#include "harness/rank/rank_context.h"
#include "harness/verdict/compare.h"
#include "harness/worlds/subject.h"

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <span>
#include <thread>
#include <unistd.h>

namespace lockstep::toys {

namespace {

// `factor` is what a toy multiplies wrongly with.
struct Toy {
  WorldSpec world{.size = 2};
  int64_t factor = 1;
  bool loud = false;
  static constexpr auto fields() {
    return std::tuple{field("world", &Toy::world), field("factor", &Toy::factor, between(1, 100)),
                      field("loud", &Toy::loud)};
  }
};

// Without a field of its own.
struct Bare {
  WorldSpec world{.size = 2};
  static constexpr auto fields() { return std::tuple{field("world", &Bare::world)}; }
};

rc::Gen<Toy> toys() {
  return gen::map(rc::gen::inRange<int64_t>(1, 100), [](int64_t factor) {
    return Toy{.world = {.size = 2 + static_cast<int>(factor % 2)},
               .factor = factor,
               .loud = factor % 3 == 0};
  });
}

// Only the last rank misbehaves, so that every story has a rank that did not.
bool is_last(const RankContext& here) {
  return here.rank() == here.size() - 1;
}

// Writes the device of this rank, for a test that asks.
void tell_device(const RankContext& here) {
  if (const char* folder = std::getenv("TOYS_DEVICES"))
    std::ofstream(std::string(folder) + "/rank" + std::to_string(here.rank()))
        << here.device().str();
}

void look(RankContext& here, int64_t value) {
  tell_device(here);
  here.enter(0, "look");
  here.record("sum", std::vector<int64_t>{3, value});
}

[[noreturn]] void sleep_for_ever() {
  for (;;) ::pause();
}

void sums(const Toy&, RankContext& here) {
  look(here, 10);
}

void multiplies(const Toy& c, RankContext& here) {
  std::cerr << "rank " << here.rank() << " multiplies by " << c.factor << std::endl;
  look(here, c.factor < 40 ? 10 : 10 * here.size());
}

// The factor chooses one of three ways to fail, or none.
void fails_in_ways(const Toy& c, RankContext& here) {
  if (c.factor % 4 == 1 && is_last(here)) throw std::runtime_error("the toy is broken");
  look(here, c.factor % 4 == 0 ? 10 : c.factor % 4 == 2 ? 10 * here.size() : 11);
}

// Three values that should be averages over the ranks; of one the sum is recorded.
void sums_one_of_three(const Toy&, RankContext& here) {
  here.enter(0, "average");
  here.record("bias", at::tensor({-0.5F}));
  here.record("weight", at::tensor({0.125F, 0.0F, 3.0F, 0.1F}).view({2, 2}) * here.size());
  here.record("scale", at::tensor({1.0F, 2.0F}));
}

void crashes_before_the_first_step(const Toy&, RankContext& here) {
  if (is_last(here)) std::abort();
  look(here, 10);
}

void crashes_in_a_step(const Toy&, RankContext& here) {
  look(here, 10);
  here.enter(1, "multiply");
  if (is_last(here)) std::raise(SIGSEGV);
}

// A second thread kills the rank after a hundred records, wherever the first is in the next one.
void crashes_while_recording(const Toy&, RankContext& here) {
  look(here, 10);
  if (!is_last(here)) return;
  std::atomic<int64_t> records = 0;
  std::thread([&] {
    while (records < 100) std::this_thread::yield();
    ::kill(::getpid(), SIGKILL);
  }).detach();
  for (;;) {
    here.record("more", std::vector<int64_t>(1 << 10, records));
    ++records;
  }
}

void crashes_on_the_way_out(const Toy&, RankContext& here) {
  struct Guard {
    bool armed;
    ~Guard() {
      if (armed) std::abort();
    }
  };
  const Guard guard{is_last(here)};
  look(here, 10);
}

void exits(const Toy&, RankContext& here) {
  look(here, 10);
  if (is_last(here)) ::_exit(3);
}

void throws(const Toy&, RankContext& here) {
  look(here, 10);
  if (is_last(here)) throw std::runtime_error("the toy is broken");
}

void hangs(const Toy&, RankContext& here) {
  look(here, 10);
  here.enter(1, "wait");
  if (is_last(here)) sleep_for_ever();
}

// Blocks until somebody opens the named pipe for writing; with TOYS_GROUP once its ranks are
// connected. Beside the pipe each rank first leaves a file with its process, "PIPE rank0".
void waits_for_a_writer(const Toy&, RankContext& here) {
  if (std::getenv("TOYS_GROUP")) here.group();
  if (const char* pipe = std::getenv("TOYS_PIPE")) {
    std::ofstream{pipe + std::string(" rank") + std::to_string(here.rank())} << ::getpid() << "\n";
    std::ifstream{pipe};
  }
  look(here, 10);
}

void records_nothing(const Toy&, RankContext& here) {
  here.enter(0, "look");
}

void refuses(const Toy&, RankContext&) {
  throw Unsupported("no GPU");
}

// The first run leaves a file behind, where later ones find it.
void changes_its_mind(const Toy&, RankContext& here) {
  const char* file = std::getenv("TOYS_FILE");
  const bool again = !file || ::access(file, F_OK) == 0;
  if (is_last(here) && file) std::ofstream{file};
  look(here, again || !is_last(here) ? 10 : 11);
}

Findings sum_is_ten(const Toy& c, const History& history) {
  Findings out;
  for (const auto& row : history.rows("look")) {
    const auto usual_mistakes = [&] {
      return Explanations{
          recorded_instead({"sum_not_average", "the sum over the ranks, not the average"},
                           {int64_values({3, 10 * c.world.size})})};
    };
    out +=
        equal("The sum of the toys must be ten on every rank",
              {{.row = row, .expected = {int64_values({3, 10})}, .explanations = usual_mistakes}});
  }
  return out;
}

TensorValue floats(const std::vector<float>& values, std::vector<int64_t> shape) {
  TensorValue value{"float32", std::move(shape), {}};
  const auto bytes = std::as_bytes(std::span(values));
  value.bytes.assign(bytes.begin(), bytes.end());
  return value;
}

Findings averages_are_right(const Toy&, const History& history) {
  const auto compared = [&](const char* name, const TensorValue& right) {
    return Comparison{.row = history.row({0, "average"}, name),
                      .expected = {right},
                      .explanations = [] { return Explanations{sum_not_average("toys")}; }};
  };
  return equal("Every rank must hold the average of the toys",
               {compared("bias", floats({-0.5F}, {1})),
                compared("weight", floats({0.125F, 0.0F, 3.0F, 0.1F}, {2, 2})),
                compared("scale", floats({1.0F, 2.0F}, {2}))});
}

Findings check_that_throws(const Toy&, const History&) {
  throw std::runtime_error("the check divided by zero");
}

using Program = void (*)(const Toy&, RankContext&);
using Check = Findings (*)(const Toy&, const History&);

Scenario toy(const char* name, Program program, int draws = 1, Check check = sum_is_ten) {
  return scenario<Toy>({.name = std::string("toys.") + name,
                        .claim = "The sum of the toys is ten.",
                        .exactness = "bit-equal",
                        .source = "a story for children",
                        .not_covered = "toys of other colours",
                        .usual_mistake = "counting a toy twice",
                        .tags = {draws > 1 ? "many" : "one"},
                        .must_catch = {"toy_counted_twice"},
                        .draws = draws,
                        .cases = toys(),
                        .program = program,
                        .checks = {check}});
}

Scenario bare() {
  return scenario<Bare>(
      {.name = "toys.bare",
       .claim = "The sum of the toys is ten.",
       .exactness = "bit-equal",
       .source = "a story for children",
       .not_covered = "toys that have something to set",
       .usual_mistake = "setting what is not there",
       .tags = {"one"},
       .must_catch = {"toy_counted_twice"},
       .draws = 1,
       .cases = rc::gen::just(Bare{}),
       .program = [](const Bare&, RankContext& here) { look(here, 10); },
       .checks = {[](const Bare&, const History& history) { return sum_is_ten({}, history); }}});
}

}  // namespace

std::vector<Scenario> scenarios() {
  return {toy("hold", sums, 6),
          bare(),
          toy("hold_too", sums, 4),
          toy("multiply", multiplies, 30),
          toy("fail_in_ways", fails_in_ways, 20),
          toy("average", sums_one_of_three, 1, averages_are_right),
          toy("crash_before_the_first_step", crashes_before_the_first_step),
          toy("crash_in_a_step", crashes_in_a_step),
          toy("crash_while_recording", crashes_while_recording),
          toy("crash_on_the_way_out", crashes_on_the_way_out),
          toy("exit", exits),
          toy("throw", throws),
          toy("hang", hangs),
          toy("check_throws", sums, 1, check_that_throws),
          toy("record_nothing", records_nothing),
          toy("refuse", refuses),
          toy("change_mind", changes_its_mind),
          toy("wait", waits_for_a_writer, 4)};
}

std::vector<Scenario> with_a_canary_that_passes() {
  auto canary = toy("canary", sums);
  canary.tags = {"canary"};
  return {toy("hold", sums, 6), canary};
}

Subjects subjects(const std::string& first) {
  return {Subject{.name = first}, Subject{.name = "other"}};
}

}  // namespace lockstep::toys
