// Scenarios that require shares of their cases, one of which draws too few, and one that does not
// use a field of its shape.
#include "harness/cases/generators.h"
#include "harness/rank/rank_context.h"
#include "harness/verdict/compare.h"
#include "tests/cli/toys/toys.h"

namespace lockstep::toys {

namespace {

enum class Colour { red, green };

struct Kind {
  WorldSpec world{.size = 2};
  bool loud = false;
  Colour colour = Colour::red;
  int64_t number = 1;
  static constexpr auto fields() {
    return std::tuple{field("world", &Kind::world), field("loud", &Kind::loud),
                      field("colour", &Kind::colour),
                      field("number", &Kind::number, between(1, 1000))};
  }
};

rc::Gen<Kind> kinds() {
  return gen::map(rc::gen::resize(100, rc::gen::inRange<int64_t>(1, 1000)), [](int64_t number) {
    return Kind{.loud = number % 2 == 0,
                .colour = number % 3 == 0 ? Colour::green : Colour::red,
                .number = number};
  });
}

void look(const Kind&, RankContext& here) {
  here.enter(0, "look");
  here.record("ten", std::vector<int64_t>{10});
}

Findings all_see_ten(const Kind&, const History& history) {
  return equal("Every rank must see ten",
               {{.row = history.row({0, "look"}, "ten"), .expected = {int64_values({10})}}});
}

std::string why_too_much(const Kind& c) {
  return c.number < 1000 ? "" : "a thousand is too much";
}

bool is_loud(const Kind& c) {
  return c.loud;
}

Scenario kind(const char* name, double share, std::vector<std::string> unused) {
  return scenario<Kind>({.name = std::string("kinds.") + name,
                         .claim = "Every rank sees ten.",
                         .exactness = "bit-equal",
                         .source = "a story for children",
                         .not_covered = "eleven",
                         .usual_mistake = "counting on one hand",
                         .tags = {"many"},
                         .must_catch = {"eleven"},
                         .draws = 30,
                         .cases = kinds(),
                         .precondition = why_too_much,
                         .program = look,
                         .checks = {all_see_ten},
                         .labels = {{"a loud one", share, is_loud}},
                         .unused = std::move(unused)});
}

}  // namespace

std::vector<Scenario> kinds_of_cases() {
  return {kind("met", 0.2, {}), kind("missed", 0.9, {}), kind("plain", 0.2, {"colour"})};
}

}  // namespace lockstep::toys
