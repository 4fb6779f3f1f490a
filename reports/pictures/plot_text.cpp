#include "reports/pictures/plot_text.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace lockstep::reports {

namespace {

constexpr size_t kPlotColumns = 80, kBarColumnsMost = 40;
constexpr size_t kPlotRows = 9;

std::string repeated(const std::string& text, size_t times) {
  std::string out;
  for (size_t i = 0; i < times; ++i) out += text;
  return out;
}

size_t rounded(double value) {
  return static_cast<size_t>(std::llround(value));
}

// A point of a series: the last digit of its rank, "=" for the reference, a letter for the others.
std::string point_of(const Lines& lines, size_t series) {
  const int rank = lines.series[series].label.rank;
  if (rank >= 0) return std::to_string(rank % 10);
  return rank == kReference ? "=" : std::string(1, static_cast<char>('a' + series % 26));
}

// The characters of a plot, row by row from the top; several series at one place are '&'.
std::vector<std::vector<std::string>> points_of(const Lines& lines, size_t between,
                                                const Style& style) {
  const auto scale = scale_of(lines);
  const size_t wide = (lines.columns.size() - 1) * between + 1;
  std::vector<std::vector<std::string>> rows(kPlotRows, std::vector<std::string>(wide, " "));
  for (size_t s = 0; s < lines.series.size(); ++s)
    for (size_t column = 0; column < lines.columns.size(); ++column) {
      const double value = lines.series[s].values[column];
      if (std::isnan(value)) continue;
      const size_t up = rounded(scale.at(value) * static_cast<double>(kPlotRows - 1));
      auto& place = rows[kPlotRows - 1 - up][column * between];
      place = place == " " ? coloured_as(point_of(lines, s), lines.series[s].label, style) : "&";
    }
  return rows;
}

std::string label_of_row(const Lines& lines, size_t row) {
  const auto scale = scale_of(lines);
  const double part = 1 - static_cast<double>(row) / static_cast<double>(kPlotRows - 1);
  return row % 4 == 0 ? number_text(scale.least + part * (scale.most - scale.least)) : "";
}

// The names of columns below their points, as many as there is room for.
std::string names_below(const Lines& lines, size_t between, const Style& style) {
  std::string out;
  for (size_t column = 0; column < lines.columns.size(); ++column) {
    const auto name = shown(lines.columns[column], style);
    if (column > 0 && width(out) + 1 > column * between) continue;
    out = padded(out, column * between) + name;
  }
  return out;
}

// The key of a plot: the mark of each line, in rows that fit.
std::vector<std::string> key_of(const Lines& lines, const Style& style) {
  std::vector<std::string> out(1);
  const auto add = [&](const std::string& entry) {
    if (!out.back().empty() &&
        width(out.back()) + 3 + width(entry) + 2 > style.columns_or(kPlotColumns))
      out.emplace_back();
    out.back() += (out.back().empty() ? "" : "   ") + entry;
  };
  for (size_t s = 0; s < lines.series.size(); ++s) {
    const auto& label = lines.series[s].label;
    add(coloured_as(point_of(lines, s) + " " + shown(label.text, style), label, style));
  }
  add("& several");
  return out;
}

}  // namespace

std::string coloured_as(const std::string& text, const Label& label, const Style& style) {
  constexpr std::array kOfRanks{Colour::blue,    Colour::yellow, Colour::green,
                                Colour::magenta, Colour::cyan,   Colour::red};
  if (label.rank == kNobody) return text;
  return coloured(text,
                  label.rank == kReference
                      ? Colour::bold
                      : kOfRanks[static_cast<size_t>(label.rank) % kOfRanks.size()],
                  style);
}

std::string bars_text(const Bars& bars, const Style& style) {
  size_t label_columns = 0, text_columns = 0;
  const auto text_of_bar = [&](const Bars::Bar& bar) {
    return shown(bar.text + sign_of(bar.mark), style);
  };
  for (const auto& group : bars.groups)
    for (const auto& bar : group.bars) {
      label_columns = std::max(label_columns, width(shown(bar.label.text, style)));
      text_columns = std::max(text_columns, width(text_of_bar(bar)));
    }
  const size_t taken = 5 + label_columns + text_columns;
  const size_t room = style.columns_or(kPlotColumns) > taken + 8
                          ? std::min(kBarColumnsMost, style.columns_or(kPlotColumns) - taken)
                          : size_t{8};
  const auto scale = scale_of(bars);
  const size_t zero = rounded(scale.at(0) * static_cast<double>(room));
  std::string out = "  " + shown(bars.value_axis, style) + "\n";
  for (const auto& group : bars.groups) {
    if (!group.title.empty()) out += "  " + shown(group.title, style) + "\n";
    for (const auto& bar : group.bars) {
      const size_t at = rounded(scale.at(bar.value) * static_cast<double>(room));
      const auto body = repeated(shown(bar.mark == Mark::wrong ? "▒" : "█", style),
                                 std::max(at, zero) - std::min(at, zero));
      out += "  " +
             coloured_as(padded(shown(bar.label.text, style), label_columns), bar.label, style) +
             "  " + std::string(std::min(at, zero), ' ') + coloured_as(body, bar.label, style) +
             (body.empty() ? "" : " ") +
             (bar.mark == Mark::wrong ? coloured(text_of_bar(bar), Colour::red, style)
                                      : text_of_bar(bar)) +
             "\n";
    }
  }
  return out;
}

std::string lines_text(const Lines& lines, const Style& style) {
  size_t labels = 0;
  for (size_t row = 0; row < kPlotRows; ++row)
    labels = std::max(labels, width(label_of_row(lines, row)));
  const size_t taken = labels + 8 + width(shown(lines.columns.back(), style)) +
                       width(shown(lines.column_axis, style));
  const size_t room =
      style.columns_or(kPlotColumns) > taken ? style.columns_or(kPlotColumns) - taken : 0;
  const size_t gaps = std::max<size_t>(1, lines.columns.size() - 1);
  const size_t between = std::clamp<size_t>(room / gaps, 1, 8);
  const auto rows = points_of(lines, between, style);
  std::string out = "  " + shown(lines.value_axis, style) + "\n";
  for (size_t row = 0; row < kPlotRows; ++row) {
    std::string line = "  " + right_aligned(label_of_row(lines, row), labels) + shown(" │ ", style);
    for (const auto& point : rows[row]) line += point;
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  out += "  " + std::string(labels, ' ') + "   " + names_below(lines, between, style) + "   " +
         shown(lines.column_axis, style) + "\n";
  for (const auto& line : key_of(lines, style)) out += "  " + line + "\n";
  return out;
}

}  // namespace lockstep::reports
