#include "reports/pictures/text.h"

#include "reports/fit.h"
#include "reports/pictures/lanes.h"
#include "reports/pictures/plot_text.h"

#include <algorithm>

namespace lockstep::reports {

namespace {

constexpr size_t kColumnsOfPaper = 100;  // where there is no terminal

// The columns of a grid that stand in one block: [begin, end), by group.
struct Part {
  const Grid::Columns* group;
  size_t begin, end;  // among all columns
  size_t first;       // of the group's columns
};
using Block = std::vector<Part>;

struct Widths {
  size_t label = 0;
  std::vector<size_t> columns;
};

std::string cell_text(const Cell& cell) {
  return cell.text + sign_of(cell.mark);
}

Widths widths_of(const Grid& grid, const Style& style) {
  Widths widths{width(grid.column_axis), {}};
  const auto seen = [&](const std::string& text) { return width(shown(text, style)); };
  for (const auto& row : grid.rows) widths.label = std::max(widths.label, seen(row.label.text));
  for (const auto& group : grid.columns)
    for (const auto& name : group.names) {
      auto& widest = widths.columns.emplace_back(seen(name));
      for (const auto& row : grid.rows)
        widest = std::max(widest, seen(cell_text(row.cells[widths.columns.size() - 1])));
    }
  return widths;
}

constexpr size_t kBetweenColumns = 2, kBetweenGroups = 5;

size_t width_of(const Widths& widths, size_t begin, size_t end) {
  size_t sum = 0;
  for (size_t column = begin; column < end; ++column)
    sum += widths.columns[column] + (column > begin ? kBetweenColumns : 0);
  return sum;
}

// The width of a part, at least that of its title.
size_t width_of(const Part& part, const Widths& widths, const Style& style) {
  return std::max(width_of(widths, part.begin, part.end), width(shown(part.group->title, style)));
}

// As many groups side by side as fit; a group that is too wide alone is broken between columns.
std::vector<Block> blocks_of(const Grid& grid, const Widths& widths, const Style& style) {
  const size_t all = style.columns == 0 ? kColumnsOfPaper : style.columns;
  const size_t taken = 4 + widths.label;
  const size_t room = all > taken ? all - taken : 0;
  std::vector<Block> blocks;
  size_t used = 0, column = 0;
  for (const auto& group : grid.columns) {
    const size_t end = column + group.names.size();
    const size_t first_of_group = column;
    while (column < end) {
      size_t last = end;
      while (last > column + 1 && width_of({&group, column, last, 0}, widths, style) > room) --last;
      const Part part{&group, column, last, column - first_of_group};
      const size_t wide = width_of(part, widths, style);
      if (blocks.empty() || used + kBetweenGroups + wide > room) {
        blocks.emplace_back();
        used = 0;
      }
      used += wide + (blocks.back().empty() ? 0 : kBetweenGroups);
      blocks.back().push_back(part);
      column = last;
    }
  }
  return blocks;
}

std::string trimmed(std::string text) {
  text.erase(text.find_last_not_of(' ') + 1);
  return text;
}

std::string in_mark(const std::string& text, Mark mark, const Style& style) {
  if (mark == Mark::plain) return text;
  return coloured(text, mark == Mark::wrong ? Colour::red : Colour::yellow, style);
}

class GridText {
 public:
  GridText(const Grid& grid, const Style& style)
      : grid_(grid), style_(style), widths_(widths_of(grid, style)) {}

  std::string text() const {
    std::string out;
    for (const auto& block : blocks_of(grid_, widths_, style_)) {
      if (!out.empty()) out += "\n";
      out += block_text(block);
    }
    return out;
  }

 private:
  template <class PartText>
  std::string line(const std::string& label, const Block& block, const PartText& text) const {
    std::string out = "  " + label + "  ";
    for (const auto& part : block) {
      if (&part != &block.front()) out += shown("  │  ", style_);
      out += padded(text(part), width_of(part, widths_, style_));
    }
    return trimmed(out) + "\n";
  }

  std::string block_text(const Block& block) const {
    std::string out;
    const bool has_titles = std::any_of(
        block.begin(), block.end(), [](const Part& part) { return !part.group->title.empty(); });
    if (has_titles)
      out += line(std::string(widths_.label, ' '), block,
                  [&](const Part& part) { return shown(part.group->title, style_); });
    out +=
        line(padded(shown(grid_.column_axis, style_), widths_.label), block, [&](const Part& part) {
          return cells(part, [&](size_t column) {
            return right(part.group->names[part.first + column - part.begin], column);
          });
        });
    for (const auto& row : grid_.rows)
      out +=
          line(coloured_as(padded(shown(row.label.text, style_), widths_.label), row.label, style_),
               block, [&](const Part& part) {
                 return cells(part, [&](size_t column) {
                   return in_mark(right(cell_text(row.cells[column]), column),
                                  row.cells[column].mark, style_);
                 });
               });
    return out;
  }

  std::string right(const std::string& text, size_t column) const {
    return right_aligned(shown(text, style_), widths_.columns[column]);
  }

  template <class CellText>
  static std::string cells(const Part& part, const CellText& text) {
    std::string out;
    for (size_t column = part.begin; column < part.end; ++column)
      out += (column > part.begin ? std::string(kBetweenColumns, ' ') : "") + text(column);
    return out;
  }

  const Grid& grid_;
  const Style& style_;
  const Widths widths_;
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
