#include "cli/launch/rank_output.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

namespace lockstep::cli {

namespace {

// 0, or the errno of an incomplete write.
int write_all(int to, const std::string& text) {
  size_t written = 0;
  while (written < text.size()) {
    const ssize_t now = write(to, text.data() + written, text.size() - written);
    if (now < 0 && errno == EINTR) continue;
    if (now <= 0) return errno;
    written += static_cast<size_t>(now);
  }
  return 0;
}

// Lines that arrived in one read are written at once, so that lines of our two streams do not
// interleave. `got` is the number of new bytes. A line is broken after a megabyte.
int write_lines(RankStream& stream, size_t got, bool is_end) {
  constexpr size_t kLongestLine = 1 << 20;
  std::string lines;
  size_t begin = 0, end = 0;
  const auto prefix = "[" + std::to_string(stream.rank) + "] ";
  for (size_t from = stream.begun.size() - got;
       (end = stream.begun.find('\n', from)) != std::string::npos; begin = from = end + 1)
    lines += prefix + stream.begun.substr(begin, end + 1 - begin);
  stream.begun.erase(0, begin);
  if (!stream.begun.empty() && (is_end || stream.begun.size() >= kLongestLine))
    lines += prefix + std::exchange(stream.begun, "") + "\n";
  return write_all(stream.to, lines);
}

}  // namespace

int read_some(RankStream& stream) {
  std::array<char, 65536> block;
  const ssize_t got = read(stream.from.number(), block.data(), block.size());
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return 0;
  if (got > 0) stream.begun.append(block.data(), static_cast<size_t>(got));
  const int problem = write_lines(stream, static_cast<size_t>(std::max<ssize_t>(got, 0)), got <= 0);
  if (got <= 0 || problem != 0) stream.from.close();
  return problem;
}

}  // namespace lockstep::cli
