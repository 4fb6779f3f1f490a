#include "bench/rounds.h"

#include "harness/base/text.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace lockstep::bench {

std::pair<int, int> rounds_and_cases(int argc, char** argv, const char* name, int rounds,
                                     int cases) {
  const auto given_rounds = argc > 1 ? parsed_int(argv[1]) : rounds;
  const auto given_cases = argc > 2 ? parsed_int(argv[2]) : cases;
  if (argc > 3 || !given_rounds || !given_cases || *given_rounds < 1 || *given_cases < 1 ||
      *given_rounds > 1000 || *given_cases > 100'000) {
    std::fprintf(stderr, "usage: %s [ROUNDS [CASES]]   (%d rounds of %d cases)\n", name, rounds,
                 cases);
    std::exit(2);
  }
  return {static_cast<int>(*given_rounds), static_cast<int>(*given_cases)};
}

double seconds_for(Tier& tier, const Setting& setting, const Scenario& scenario, int size,
                   int cases) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < cases; ++i) {
    const Case c = scenario.parse(Json{{"world", {{"size", size}}}});
    const auto history = tier.run(scenario, c, setting, {.time_limit = std::chrono::seconds(60)});
    const auto verdict = judge(scenario, c, history);
    if (verdict.kind == Verdict::Kind::pass) continue;
    std::fprintf(stderr, "%s\n", verdict.findings.front().diagnosis.c_str());
    std::exit(1);
  }
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace lockstep::bench
