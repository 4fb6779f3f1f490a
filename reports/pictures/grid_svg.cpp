#include "reports/pictures/blocks.h"
#include "reports/pictures/drawings.h"

#include <algorithm>

namespace lockstep::reports {

namespace {

constexpr double kGroupGap = 26, kBlockGap = 12, kPadding = 16, kPaddingBelowUpright = 10;

std::string text_in(const Cell& cell) {
  return cell.text + sign_of(cell.mark);
}

// Names of columns stand above their columns, or run upwards where they are wider than these.
enum class Names { level, upright };

GridWidths widths_of(const Grid& grid, Names names) {
  std::vector<Label> labels{{grid.column_axis}};
  for (const auto& row : grid.rows) labels.push_back(row.label);
  GridWidths widths{.label = kMargin + label_column(labels) + widest(labels) + 12,
                    .between_groups = kGroupGap};
  for (const auto& group : grid.columns) {
    widths.titles.push_back(pixels(group.title));
    for (const auto& name : group.names) {
      double wide = names == Names::level ? pixels(name) : kLetter;
      for (const auto& row : grid.rows)
        wide = std::max(wide, pixels(text_in(row.cells[widths.columns.size()])));
      widths.columns.push_back(wide + (names == Names::level ? kPadding : kPaddingBelowUpright));
    }
  }
  return widths;
}

class GridDrawing {
 public:
  GridDrawing(const Grid& grid, double room) : grid_(grid), widths_(widths_of(grid, names_)) {
    blocks_ = blocks_within(room);
    if (blocks_.size() > 1) {
      names_ = Names::upright;
      const auto level = std::exchange(widths_, widths_of(grid, names_));
      if (auto turned = blocks_within(room); turned.size() == 1) {
        blocks_ = std::move(turned);
      } else {
        names_ = Names::level;
        widths_ = level;
      }
    }
  }

  Drawing take() {
    double y = kMargin;
    for (const auto& block : blocks_) {
      if (&block != &blocks_.front()) y += kBlockGap;
      y = add_block(block, y);
    }
    out_.high = y + kMargin;
    return std::move(out_);
  }

 private:
  std::vector<GridBlock> blocks_within(double room) const {
    return blocks_of(grid_, widths_, room - widths_.label - kMargin);
  }

  double height_of_names(const GridBlock& block) const {
    double longest = 0;
    for (const auto& part : block)
      for (size_t i = 0; i < part.end - part.begin; ++i)
        longest = std::max(longest, pixels(part.group->names[part.first + i]));
    return names_ == Names::level ? kLineHeight : longest + kPadding;
  }

  // Returns where it ends.
  double add_block(const GridBlock& block, double y) {
    const double left = kMargin + label_column(labels());
    const double titles = has_titles(block) ? kLineHeight : 0;
    const double top = y + titles + height_of_names(block);
    add_text(out_.marks, grid_.column_axis, left, top - kLineHeight / 2, "start", "axis");
    double x = widths_.label;
    for (const auto& part : block) {
      add_text(out_.marks, part.group->title, x, y + kLineHeight / 2, "start", "strong");
      double at = x;
      for (size_t column = part.begin; column < part.end; ++column) {
        add_column(column, part.group->names[part.first + column - part.begin], at, top);
        at += widths_.columns[column];
      }
      x += part.wide + kGroupGap;
    }
    for (size_t row = 0; row < grid_.rows.size(); ++row)
      add_label(out_.marks, grid_.rows[row].label, left,
                top + (static_cast<double>(row) + 0.5) * kLineHeight);
    out_.wide = std::max(out_.wide, x - kGroupGap + kMargin);
    return top + static_cast<double>(grid_.rows.size()) * kLineHeight;
  }

  void add_column(size_t column, const std::string& name, double x, double top) {
    const double wide = widths_.columns[column];
    if (names_ == Names::level)
      add_text(out_.marks, name, x + wide / 2, top - kLineHeight / 2, "middle", "axis");
    else
      add_upright_text(out_.marks, name, x + wide / 2 + 5, top - 6, "axis");
    for (size_t r = 0; r < grid_.rows.size(); ++r) {
      const auto& cell = grid_.rows[r].cells[column];
      const double y = top + static_cast<double>(r) * kLineHeight;
      if (!cell.text.empty() || cell.mark != Mark::plain)
        add_box(out_.marks, x + 1, y + 1, wide - 2, kLineHeight - 2,
                "cell " + class_of(grid_.rows[r].label) + class_of(cell.mark));
      add_text(out_.marks, text_in(cell), x + wide / 2, y + kLineHeight / 2, "middle");
    }
  }

  std::vector<Label> labels() const {
    std::vector<Label> all;
    for (const auto& row : grid_.rows) all.push_back(row.label);
    return all;
  }

  const Grid& grid_;
  Names names_ = Names::level;
  GridWidths widths_;
  std::vector<GridBlock> blocks_;
  Drawing out_;
};

}  // namespace

Drawing drawn(const Grid& grid, double room) {
  return GridDrawing(grid, room).take();
}

}  // namespace lockstep::reports
