// A case: a plain value that fixes everything about a run except where it runs.
//
// Each shape of case (Sampling, Training, ... in scenarios/cases/) is a plain struct with a field
// list and a `WorldSpec world`. For the engine, the archive and the command line a case is erased
// to its scenario's name and JSON.
#pragma once

#include "harness/core/fields.h"

#include <concepts>
#include <filesystem>
#include <string>

namespace lockstep {

// Where in a program: the training step, and the name a program gave to what it does there.
struct Moment {
  int step = 0;
  std::string phase;
  auto operator<=>(const Moment&) const = default;
  static constexpr auto fields() {
    return std::tuple{field("step", &Moment::step, at_least(0)), field("phase", &Moment::phase)};
  }
};

// An event the case plants in one rank: at a collective (its sequence number), or, where
// `collective` is -1, at a moment. `amount` is milliseconds for a delay and an exit status for
// an exit.
struct Injection {
  std::string kind = "delay";
  int rank = 0;
  int collective = -1;
  Moment at;
  int amount = 0;
  auto operator<=>(const Injection&) const = default;
  static constexpr auto fields() {
    return std::tuple{field("kind", &Injection::kind, one_of("delay|kill|stop|exit|throw")),
                      field("rank", &Injection::rank, at_least(0)),
                      field("collective", &Injection::collective, at_least(-1)),
                      field("at", &Injection::at),
                      field("amount", &Injection::amount, at_least(0))};
  }
};

// The world a case wants: how many ranks, and what befalls them.
struct WorldSpec {
  std::vector<Injection> injections;
  int size = 1;
  auto operator<=>(const WorldSpec&) const = default;
  static constexpr auto fields() {
    return std::tuple{field("injections", &WorldSpec::injections),
                      field("size", &WorldSpec::size, between(1, 1024))};
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

// The number of ranks `c` wants; every shape has it at world.size.
int world_size(const Case& c);

// The injections of `c`, wherever it runs.
std::vector<Injection> injections(const Case& c);

// Names a case among all cases: sixteen hexadecimal digits of scenario and value.
std::string hash_of(const Case& c);

// A case file: {"lockstep_case": 1, "scenario": NAME, "value": {...}}.
std::string case_file(const Case& c);

// Throws FieldError, whose text starts with `path`: an unreadable file, no JSON, another kind of
// file, a version this program does not know. The value is checked by its scenario, not here.
Case read_case_file(const std::filesystem::path& path);
Case parse_case_file(const std::string& text, const std::string& path);

}  // namespace lockstep
