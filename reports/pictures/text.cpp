#include "reports/pictures/text.h"

#include "reports/fit.h"
#include "reports/pictures/blocks.h"
#include "reports/pictures/lanes.h"
#include "reports/pictures/plot_text.h"

#include <algorithm>

namespace lockstep::reports {

namespace {

constexpr size_t kGridColumns = 100;  // where there is no terminal

std::string cell_text(const Cell& cell) {
  return cell.text + sign_of(cell.mark);
}

GridWidths widths_of(const Grid& grid, const Style& style) {
  const auto seen = [&](const std::string& text) {
    return static_cast<double>(width(shown(text, style)));
  };
  GridWidths widths{.label = seen(grid.column_axis), .between_columns = 2, .between_groups = 5};
  for (const auto& row : grid.rows) widths.label = std::max(widths.label, seen(row.label.text));
  for (const auto& group : grid.columns) {
    widths.titles.push_back(seen(group.title));
    for (const auto& name : group.names) {
      auto& widest = widths.columns.emplace_back(seen(name));
      for (const auto& row : grid.rows)
        widest = std::max(widest, seen(cell_text(row.cells[widths.columns.size() - 1])));
    }
  }
  return widths;
}

std::string trimmed(std::string text) {
  text.erase(text.find_last_not_of(' ') + 1);
  return text;
}

std::string in_mark(const std::string& text, Mark mark, const Style& style) {
  if (mark == Mark::plain) return text;
  return coloured(text,
                  mark == Mark::wrong    ? Colour::red
                  : mark == Mark::filled ? Colour::green
                                         : Colour::yellow,
                  style);
}

class GridText {
 public:
  GridText(const Grid& grid, const Style& style)
      : grid_(grid), style_(style), widths_(widths_of(grid, style)) {}

  std::string text() const {
    const double all = static_cast<double>(style_.columns_or(kGridColumns));
    std::string out;
    for (const auto& block : blocks_of(grid_, widths_, all - 4 - widths_.label)) {
      if (!out.empty()) out += "\n";
      out += block_text(block);
    }
    return out;
  }

 private:
  std::string label(const std::string& text) const {
    return padded(shown(text, style_), static_cast<size_t>(widths_.label));
  }

  template <class PartText>
  std::string line(const std::string& begin, const GridBlock& block, const PartText& text) const {
    std::string out = "  " + begin + "  ";
    for (const auto& part : block) {
      if (&part != &block.front()) out += shown("  │  ", style_);
      out += padded(text(part), static_cast<size_t>(part.wide));
    }
    return trimmed(out) + "\n";
  }

  std::string block_text(const GridBlock& block) const {
    std::string out;
    if (has_titles(block))
      out += line(label(""), block,
                  [&](const GridPart& part) { return shown(part.group->title, style_); });
    out += line(label(grid_.column_axis), block, [&](const GridPart& part) {
      return cells(part, [&](size_t column) {
        return right(part.group->names[part.first + column - part.begin], column);
      });
    });
    for (const auto& row : grid_.rows)
      out += line(coloured_as(label(row.label.text), row.label, style_), block,
                  [&](const GridPart& part) {
                    return cells(part, [&](size_t column) {
                      return in_mark(right(cell_text(row.cells[column]), column),
                                     row.cells[column].mark, style_);
                    });
                  });
    return out;
  }

  std::string right(const std::string& text, size_t column) const {
    return right_aligned(shown(text, style_), static_cast<size_t>(widths_.columns[column]));
  }

  template <class CellText>
  static std::string cells(const GridPart& part, const CellText& text) {
    std::string out;
    for (size_t column = part.begin; column < part.end; ++column)
      out += (column > part.begin ? "  " : "") + text(column);
    return out;
  }

  const Grid& grid_;
  const Style& style_;
  const GridWidths widths_;
};

std::string body_text(const Grid& grid, const Style& style) {
  return GridText(grid, style).text();
}

std::string body_text(const Bars& bars, const Style& style) {
  return bars_text(bars, style);
}

std::string body_text(const Lines& lines, const Style& style) {
  return lines_text(lines, style);
}

std::string body_text(const Lanes& lanes, const Style& style) {
  return lanes_text(lanes, style);
}

}  // namespace

std::string text_of(const Picture& picture, const Style& style) {
  check(picture);
  const auto add = [&](std::string& out, const std::string& sentence, const std::string& indent) {
    for (const auto& line : fitted({indent + shown(sentence, style)}, style)) out += line + "\n";
  };
  std::string out;
  add(out, picture.title, "");
  out += std::visit([&](const auto& body) { return body_text(body, style); }, picture.body);
  for (const auto& line : key_of(picture)) add(out, line, "  ");
  add(out, "→ " + picture.caption, "  ");
  return out;
}

}  // namespace lockstep::reports
