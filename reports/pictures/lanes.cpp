#include "reports/pictures/lanes.h"

#include "reports/pictures/plot_text.h"

#include <algorithm>
#include <cmath>

namespace lockstep::reports {

namespace {

constexpr size_t kColumnsOfPaper = 80, kTimeColumnsMost = 60;

struct Room {
  size_t label = 0, name = 0, time = 0;  // columns
};

Room room_of(const Lanes& lanes, const Style& style) {
  Room room{.label = width(shown(lanes.time_axis, style))};
  for (const auto& row : lanes.rows) {
    room.label = std::max(room.label, width(shown(row.label.text, style)));
    for (const auto& lane : row.lanes)
      room.name = std::max(room.name, width(shown(lane.name, style)));
  }
  const size_t columns = style.columns == 0 ? kColumnsOfPaper : style.columns;
  const size_t taken = 2 + room.label + 2 + room.name + 2 + 1;
  room.time = columns > taken + 8 ? std::min(kTimeColumnsMost, columns - taken) : 8;
  return room;
}

size_t column_of(double value, const Scale& scale, const Room& room) {
  return static_cast<size_t>(std::llround(scale.at(value) * static_cast<double>(room.time)));
}

const char* character_of(Lanes::Fill fill) {
  switch (fill) {
    case Lanes::Fill::solid:
      return "█";
    case Lanes::Fill::shaded:
      return "▒";
    case Lanes::Fill::dotted:
      return "·";
  }
  return "";
}

// The characters of a lane. A span has one column at least, and its text as far as it fits.
std::string spans_text(const Lanes::Lane& lane, const Scale& scale, const Room& room,
                       const Style& style) {
  std::vector<std::string> places(room.time + 1, " ");
  for (const auto& span : lane.spans) {
    const size_t begin = std::min(column_of(span.from, scale, room), room.time);
    const size_t end =
        std::clamp(column_of(span.to, scale, room), begin + 1, std::max(begin + 1, room.time));
    const auto text = shown(span.text, style);
    const bool has_room = width(text) <= end - begin && text.size() == width(text);
    for (size_t at = begin; at < end; ++at)
      places[at] = has_room && at - begin < text.size() ? text.substr(at - begin, 1)
                                                        : shown(character_of(span.fill), style);
  }
  std::string out;
  for (const auto& place : places) out += place;
  out.erase(out.find_last_not_of(' ') + 1);
  return out;
}

// The times below which the lanes stand, as many as there is room for.
std::string axis_text(const Scale& scale, const Room& room) {
  constexpr size_t kTicks = 4;
  std::string out;
  for (size_t tick = 0; tick <= kTicks; ++tick) {
    const double value = scale.most * static_cast<double>(tick) / kTicks;
    const size_t at = column_of(value, scale, room);
    const auto name = number_text(value);
    const size_t begin = tick == kTicks ? at + 1 - std::min(name.size(), at + 1) : at;
    if (!out.empty() && begin <= out.size()) continue;
    out = padded(out, begin) + name;
  }
  return out;
}

}  // namespace

size_t marks_in(const Lanes& lanes) {
  size_t count = 0;
  for (const auto& row : lanes.rows)
    for (const auto& lane : row.lanes) count += lane.spans.size();
  return count;
}

std::vector<Mark> marks_of(const Lanes&) {
  return {};
}

std::string fault_of(const Lanes& lanes) {
  for (const auto& row : lanes.rows)
    for (const auto& lane : row.lanes)
      for (const auto& span : lane.spans)
        if (!(span.from >= 0 && span.from <= span.to && std::isfinite(span.to)))
          return "span '" + span.text + "' of " + row.label.text + " is no time";
  return "";
}

DataTable table_of(const Lanes& lanes) {
  DataTable table{{"row", "lane", "span", "from, " + lanes.time_axis, "to, " + lanes.time_axis},
                  {}};
  for (const auto& row : lanes.rows)
    for (const auto& lane : row.lanes)
      for (const auto& span : lane.spans)
        table.rows.push_back(
            {row.label.text, lane.name, span.text, number_text(span.from), number_text(span.to)});
  return table;
}

Scale scale_of(const Lanes& lanes) {
  Scale scale = Scale{}.with(lanes.most);
  for (const auto& row : lanes.rows)
    for (const auto& lane : row.lanes)
      for (const auto& span : lane.spans) scale = scale.with(span.to);
  return scale;
}

std::string body_text(const Lanes& lanes, const Style& style) {
  const auto room = room_of(lanes, style);
  const auto scale = scale_of(lanes);
  std::string out = "  " + padded(shown(lanes.time_axis, style), room.label) + "  " +
                    std::string(room.name, ' ') + "  " + axis_text(scale, room) + "\n";
  for (const auto& row : lanes.rows)
    for (const auto& lane : row.lanes) {
      const bool is_first = &lane == &row.lanes.front();
      out += "  " +
             coloured_as(padded(is_first ? shown(row.label.text, style) : "", room.label),
                         row.label, style) +
             "  " + padded(shown(lane.name, style), room.name) + "  " +
             coloured_as(spans_text(lane, scale, room, style), row.label, style) + "\n";
    }
  return out;
}

}  // namespace lockstep::reports
