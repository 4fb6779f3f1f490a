#include "scenarios/collectives/printed.h"

#include "harness/worlds/subject.h"
#include "scenarios/cases/sentences.h"

#include <iostream>
#include <sstream>

namespace lockstep::scenarios::collectives {

namespace {

constexpr const char *kPrinted = "printed", *kCanPrint = "can print", *kLine = "a line of rank 0's";

// Captures what is printed while it lives. Ranks of a simulated world share standard output, and
// take turns only in collectives.
class Captured {
 public:
  Captured() : before_(std::cout.rdbuf(text_.rdbuf())) {}
  ~Captured() { std::cout.rdbuf(before_); }
  Captured(const Captured&) = delete;
  Captured& operator=(const Captured&) = delete;
  std::string text() const { return text_.str(); }

 private:
  std::ostringstream text_;
  std::streambuf* const before_;
};

}  // namespace

void print_a_line(RankContext& here) {
  const auto& print = here.subject().print_on_rank_0;
  const Captured captured;
  if (print) print(kLine, here.group());
  here.record(kCanPrint, std::vector<int64_t>{print != nullptr});
  record_sentence(here, kPrinted, captured.text());
}

Findings rank_zero_alone_prints(const Called& c, const History& h) {
  constexpr const char* kRule = "Rank 0 must print the line, and no other rank";
  const Moment at{0, word_of(calls_of(c).front().kind)};
  if (as_integers(h.row(at, kCanPrint).by_rank.front()).front() == 0) return {};
  const auto row = h.row(at, kPrinted);
  for (int rank = 0; rank < c.world.size; ++rank) {
    const auto printed = sentence_in(row, rank);
    const auto expected = rank == 0 ? kLine + std::string("\n") : "";
    if (printed == expected) continue;
    return {{kRule,
             rank == 0 ? "printed_otherwise" : "printed_by_another_rank",
             {at, kPrinted},
             "rank " + std::to_string(rank) + " printed '" + printed + "'"}};
  }
  return {};
}

}  // namespace lockstep::scenarios::collectives
