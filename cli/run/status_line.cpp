#include "cli/run/status_line.h"

#include "cli/machine.h"
#include "cli/print.h"

#include <algorithm>
#include <unistd.h>

namespace lockstep::cli {

namespace {

constexpr std::chrono::milliseconds kLiveEvery{100};
constexpr std::chrono::seconds kLogEvery{10};
constexpr char kEraseLine[] = "\r\033[K";

// At most `columns` columns of `text`, so that a terminal never breaks the line.
std::string cut(const std::string& text, size_t columns) {
  std::string out = text;
  while (reports::width(out) > columns) out.pop_back();
  return out;
}

}  // namespace

StatusLine::StatusLine(reports::Style style, bool is_terminal,
                       std::function<Clock::time_point()> now)
    : style_(style), is_terminal_(is_terminal), now_(std::move(now)), shown_(now_()) {}

StatusLine::~StatusLine() {
  erase();  // The command's error gets a line of its own.
}

void StatusLine::erase() {
  if (is_shown_) print_progress(kEraseLine);
  is_shown_ = false;
}

void StatusLine::show(const std::function<std::string()>& text) {
  const auto now = now_();
  const std::chrono::milliseconds every = is_terminal_ ? kLiveEvery : kLogEvery;
  if (now - shown_ < every) return;
  shown_ = now;
  const auto line = shown(text(), style_);
  if (is_terminal_) {
    const auto columns = static_cast<size_t>(std::max(1, terminal_columns(STDERR_FILENO) - 1));
    print_progress(kEraseLine + cut(line, columns));
    is_shown_ = true;
  } else {
    print_progress(line + "\n");
  }
}

}  // namespace lockstep::cli
