#include "cli/run/live.h"

#include "cli/run/draw_progress.h"

#include <gtest/gtest.h>

#include <csignal>
#include <iostream>
#include <sstream>
#include <utility>

namespace lockstep::cli {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Captures what `stream` receives while this lives.
class Heard {
 public:
  explicit Heard(std::ostream& stream) : stream_(stream), before_(stream.rdbuf(text_.rdbuf())) {}
  ~Heard() { stream_.rdbuf(before_); }
  Heard(const Heard&) = delete;
  Heard& operator=(const Heard&) = delete;
  std::string text() const { return text_.str(); }

 private:
  std::ostringstream text_;
  std::ostream& stream_;
  std::streambuf* before_;
};

// A live display whose clock stands still unless told otherwise.
struct Screen {
  Heard out{std::cout}, err{std::cerr};
  std::chrono::steady_clock::time_point time{};
  bool asked = false;
  Run run;
  Case c{"toys.a", Json::object()};
  Setting setting;
  std::unique_ptr<Live> live;

  explicit Screen(bool is_terminal, Detail detail = Detail::normal, bool rows = false) {
    LiveOptions options{.progress_is_live = is_terminal,
                        .detail = detail,
                        .show_rows = rows,
                        .results = 2,
                        .cases = 4,
                        .time_limit = seconds(30)};
    options.now = [this] { return time; };
    options.wants_to_know = [this] { return std::exchange(asked, false); };
    live = std::make_unique<Live>(run, reports::Columns{}, options);
  }
  void begin(int number) { live->on_case({c, setting, number, 4, 1}); }
  void end(int number) {
    RankHistory rank;
    rank.events.push_back({{0, "look"}, Observation{"sum", int64_values({7})}});
    live->on_verdict({c, setting, number, 4, 1}, History({rank}), Verdict());
  }
  void wait(milliseconds more) {
    time += more;
    live->on_wait();
  }
};

TEST(Live, ALogGetsALineNowAndThen) {
  Screen screen(false);
  screen.begin(1);
  screen.end(1);
  screen.begin(2);
  screen.wait(seconds(4));
  EXPECT_EQ(screen.err.text(), "");
  screen.end(2);
  screen.wait(seconds(6));
  EXPECT_EQ(screen.err.text(), "[0/2] 2 of 4 cases  10 s, about 10 s left  toys.a\n");
  screen.wait(seconds(9));
  EXPECT_EQ(screen.err.text(), "[0/2] 2 of 4 cases  10 s, about 10 s left  toys.a\n");
  screen.wait(seconds(1));
  EXPECT_EQ(screen.err.text(),
            "[0/2] 2 of 4 cases  10 s, about 10 s left  toys.a\n"
            "[0/2] 2 of 4 cases  20 s, about 20 s left  toys.a\n");
}

TEST(Live, TheTimeLeftIsSaidOnceCasesTellIt) {
  Screen screen(true);
  screen.begin(1);
  screen.wait(seconds(60));
  EXPECT_EQ(screen.err.text().find("left"), std::string::npos) << "no case has ended";
  screen.end(1);
  screen.wait(seconds(1));
  EXPECT_TRUE(screen.err.text().ends_with("1 of 4 cases, about 3 min left  toys.a"))
      << screen.err.text();
  for (const int number : {2, 3, 4}) screen.end(number);
  screen.wait(seconds(1));
  EXPECT_TRUE(screen.err.text().ends_with("4 of 4 cases  toys.a")) << screen.err.text();
}

TEST(Live, ATerminalGetsOneLineThatChanges) {
  Screen screen(true);
  screen.begin(1);
  screen.end(1);
  screen.begin(2);
  screen.wait(milliseconds(100));
  EXPECT_EQ(screen.err.text(), "\r\033[K[0/2] ████                1 of 4 cases  toys.a");
  screen.live->summary();
  EXPECT_TRUE(screen.err.text().ends_with("toys.a\r\033[K")) << "gone before the summary";
}

TEST(Live, WhatBreaksTheRunFindsTheStatusLineGone) {
  Screen screen(true);
  screen.begin(1);
  screen.wait(seconds(1));
  screen.live.reset();
  EXPECT_TRUE(screen.err.text().ends_with("\r\033[K"));
}

TEST(Live, ASlowCaseIsNamedOnce) {
  Screen screen(false);
  screen.begin(1);
  screen.wait(seconds(1));
  screen.end(1);
  screen.begin(2);
  screen.wait(seconds(6));
  EXPECT_EQ(screen.err.text(), "");
  screen.wait(milliseconds(100));
  const std::string notice =
      "slow: toys.a, case 2 of 4, has run for 6.1 s; the longest case before took 1.0 s; its ranks "
      "are killed after 30.0 s\n";
  EXPECT_EQ(screen.err.text(), notice);
  screen.wait(seconds(1));
  EXPECT_EQ(screen.err.text(), notice);
}

TEST(Live, QuietMeansQuiet) {
  Screen screen(false, Detail::quiet);
  screen.live->headline();
  screen.begin(1);
  screen.wait(seconds(60));
  screen.end(1);
  EXPECT_EQ(screen.err.text() + screen.out.text(), "");
}

TEST(Live, AStatusRequestIsAnsweredOnceWithWhatRunsAndForHowLong) {
  for (const auto detail : {Detail::normal, Detail::quiet}) {
    Screen screen(false, detail);
    screen.begin(1);
    screen.wait(seconds(1));
    screen.begin(3);
    screen.asked = true;
    screen.wait(milliseconds(500));
    const std::string both =
        "running: toys.a, case 1 of 4 (lockstep, cold, gloo), for 1.5 s\n"
        "running: toys.a, case 3 of 4 (lockstep, cold, gloo), for 0.5 s\n";
    EXPECT_EQ(screen.err.text(), both);
    screen.wait(milliseconds(1));
    EXPECT_EQ(screen.err.text(), both);
    screen.end(1);
    screen.end(3);
    screen.asked = true;
    screen.wait(milliseconds(1));
    EXPECT_EQ(screen.err.text(), both + "running: no case at this moment\n");
  }
}

TEST(DrawProgress, ALogGetsALineEveryTenSeconds) {
  const Heard err{std::cerr};
  std::chrono::steady_clock::time_point time{};
  DrawProgress progress(3, false, {}, false, [&] { return time; });
  progress.begin("toys.a");
  for (int number = 0; number < 1000; ++number) progress.looked_at_a_case();
  progress.begin("toys.b");
  progress.looked_at_a_case();
  EXPECT_EQ(err.text(), "");
  time += seconds(10);
  progress.looked_at_a_case();
  progress.looked_at_a_case();
  EXPECT_EQ(err.text(), "[2/3] drawing 1,002 cases  10 s  toys.b\n");
}

TEST(DrawProgress, QuietMeansQuietUnlessSomebodyAsks) {
  const Heard err{std::cerr};
  std::chrono::steady_clock::time_point time{};
  DrawProgress progress(3, true, {}, false, [&] { return time; });
  progress.begin("toys.a");
  time += seconds(20);
  progress.looked_at_a_case();
  EXPECT_EQ(err.text(), "");
  ::raise(SIGUSR1);
  progress.looked_at_a_case();
  EXPECT_EQ(err.text(), "running: [1/3] drawing 2 cases  20 s  toys.a\n");
}

TEST(Live, VerboseIsALineACase) {
  Screen screen(false, Detail::verbose);
  screen.begin(1);
  screen.end(1);
  EXPECT_EQ(screen.out.text(), "    pass          toys.a  case 1 of 4  {}\n");
}

TEST(Live, MoreVerboseIsEveryRowToo) {
  Screen screen(false, Detail::verbose, true);
  screen.begin(1);
  screen.end(1);
  EXPECT_EQ(screen.out.text(),
            "    pass          toys.a  case 1 of 4  {}\n"
            "step 0  look  sum  int64[1]\n"
            "  rank 0  7\n"
            "rank 0  returned\n");
}

}  // namespace
}  // namespace lockstep::cli
