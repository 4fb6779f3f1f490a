#include "reports/pictures/lanes.h"

#include "harness/base/text.h"
#include "reports/pictures/plot_text.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace lockstep::reports {

namespace {

constexpr size_t kLaneColumns = 80, kRoomLeast = 8;

// The column at which a time is.
size_t place_of(double time, const Scale& scale, size_t room) {
  return static_cast<size_t>(scale.at(time) * static_cast<double>(room));
}

// The first column of a run and the one behind its last; what it is called.
struct PlacedRun {
  size_t from, to;
  std::string name;
};

// "[█w5█]": the sign of each part's mark; brackets, and the name, where there is room for them.
std::string run_text(const std::vector<Lanes::Span>& row, const JoinedSpans& run,
                     const PlacedRun& is, const Scale& scale, size_t room, const Style& style) {
  const size_t wide = is.to - is.from, inner = wide > 2 ? wide - 2 : 0;
  const auto name = width(is.name) <= inner ? is.name : std::string();
  const size_t name_at = is.from + 1 + (inner - width(name)) / 2;
  std::string out;
  size_t span = run.begin;
  for (size_t at = is.from; at < is.to; ++at) {
    while (span + 1 < run.end && place_of(row[span + 1].from, scale, room) <= at) ++span;
    if (!name.empty() && at == name_at) {
      out += name;
      at += width(name) - 1;
    } else if (inner > 0 && (at == is.from || at + 1 == is.to)) {
      out += at == is.from ? "[" : "]";
    } else {
      out += shown(row[span].mark == Mark::plain ? "█" : sign_of(row[span].mark), style);
    }
  }
  return out;
}

std::string row_text(const std::vector<Lanes::Span>& row, const Scale& scale, size_t room,
                     const Label& label, const Style& style) {
  std::string out;
  size_t at = 0;
  for (const auto& run : joined_spans(row)) {
    const size_t from = std::max(at, place_of(row[run.begin].from, scale, room));
    if (from >= room) break;
    const size_t to =
        std::min(room, std::max(from + 1, place_of(row[run.end - 1].to, scale, room)));
    out += std::string(from - at, ' ') +
           coloured_as(run_text(row, run, {from, to, shown(row[run.begin].text, style)}, scale,
                                room, style),
                       label, style);
    at = to;
  }
  return out;
}

}  // namespace

std::vector<std::vector<Lanes::Span>> rows_of(const Lanes::Lane& lane) {
  auto spans = lane.spans;
  std::stable_sort(spans.begin(), spans.end(),
                   [](const auto& a, const auto& b) { return a.from < b.from; });
  std::vector<std::vector<Lanes::Span>> rows;
  for (auto& span : spans) {
    rows.resize(std::max(rows.size(), span.row));
    const auto free =
        std::find_if(rows.begin() + static_cast<std::ptrdiff_t>(span.row), rows.end(),
                     [&](const auto& row) { return row.empty() || row.back().to <= span.from; });
    (free == rows.end() ? rows.emplace_back() : *free).push_back(std::move(span));
  }
  return rows;
}

std::vector<JoinedSpans> joined_spans(const std::vector<Lanes::Span>& row) {
  std::vector<JoinedSpans> runs;
  for (size_t i = 0; i < row.size(); ++i)
    if (i > 0 && row[i].from == row[i - 1].to && row[i].text == row[i - 1].text)
      runs.back().end = i + 1;
    else
      runs.push_back({i, i + 1});
  return runs;
}

std::vector<double> ticks_of(const Scale& scale, size_t most) {
  const double length = scale.most - scale.least;
  if (length <= 0 || most == 0) return {scale.least};
  const double power = std::pow(10, std::floor(std::log10(length / static_cast<double>(most))));
  double step = power;
  for (const double factor : {1.0, 2.0, 5.0, 10.0}) {
    step = factor * power;
    if (length / step <= static_cast<double>(most)) break;
  }
  std::vector<double> ticks;
  for (double tick = std::ceil(scale.least / step) * step; tick <= scale.most; tick += step)
    ticks.push_back(tick);
  return ticks;
}

std::string tick_text(double time) {
  if (std::abs(time) >= 1000) return with_commas(std::llround(time));
  char text[32];
  std::snprintf(text, sizeof(text), "%.3g", time);
  return text;
}

std::string lanes_text(const Lanes& lanes, const Style& style) {
  size_t label_columns = width(shown(lanes.time_axis, style));
  for (const auto& lane : lanes.lanes)
    label_columns = std::max(label_columns, width(shown(lane.label.text, style)));
  const size_t all = style.columns_or(kLaneColumns);
  const size_t taken = label_columns + 4;
  const size_t room = all > taken + kRoomLeast ? all - taken : kRoomLeast;
  const auto scale = scale_of(lanes);
  const auto first = tick_text(scale.least), last = tick_text(scale.most);
  std::string out = "  " + padded(shown(lanes.time_axis, style), label_columns) + "  " + first;
  if (const size_t used = width(first) + width(last); used < room)
    out += std::string(room - used, ' ') + last;
  out += "\n";
  for (const auto& lane : lanes.lanes) {
    auto name = shown(lane.label.text, style);
    for (const auto& row : rows_of(lane)) {
      out += "  " + coloured_as(padded(name, label_columns), lane.label, style) + "  " +
             row_text(row, scale, room, lane.label, style) + "\n";
      name.clear();
    }
  }
  return out;
}

}  // namespace lockstep::reports
