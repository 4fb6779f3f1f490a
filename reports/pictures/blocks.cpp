#include "reports/pictures/blocks.h"

#include <algorithm>

namespace lockstep::reports {

double GridWidths::of(size_t group, size_t begin, size_t end) const {
  double sum = 0;
  for (size_t column = begin; column < end; ++column)
    sum += columns[column] + (column > begin ? between_columns : 0);
  return std::max(sum, titles[group]);
}

std::vector<GridBlock> blocks_of(const Grid& grid, const GridWidths& widths, double room) {
  std::vector<GridBlock> blocks;
  double used = 0;
  size_t column = 0;
  for (size_t group = 0; group < grid.columns.size(); ++group) {
    const size_t first = column, end = column + grid.columns[group].names.size();
    while (column < end) {
      size_t last = end;
      while (last > column + 1 && widths.of(group, column, last) > room) --last;
      const double wide = widths.of(group, column, last);
      if (blocks.empty() || used + widths.between_groups + wide > room) {
        blocks.emplace_back();
        used = 0;
      }
      used += wide + (blocks.back().empty() ? 0 : widths.between_groups);
      blocks.back().push_back({&grid.columns[group], column, last, column - first, wide});
      column = last;
    }
  }
  return blocks;
}

bool has_titles(const GridBlock& block) {
  return std::any_of(block.begin(), block.end(),
                     [](const auto& part) { return !part.group->title.empty(); });
}

}  // namespace lockstep::reports
