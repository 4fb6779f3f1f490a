// The columns of a grid in blocks that stand below each other, on paper and on terminals.
#pragma once

#include "reports/pictures/picture.h"

namespace lockstep::reports {

// The widths of a grid's parts, in pixels or in letters.
struct GridWidths {
  double label = 0;
  std::vector<double> columns;
  std::vector<double> titles;  // of its groups
  double between_columns = 0, between_groups = 0;

  // The width of columns of one group, side by side: at least that of its title.
  double of(size_t group, size_t begin, size_t end) const;
};

// Columns of one group in one block: [begin, end) among all columns; `first` is the number of
// `begin` in its group.
struct GridPart {
  const Grid::Columns* group;
  size_t begin, end, first;
  double wide;
};
using GridBlock = std::vector<GridPart>;

// As many groups side by side as fit into `room`, beside their labels; a group that is too wide
// alone is broken between columns.
std::vector<GridBlock> blocks_of(const Grid& grid, const GridWidths& widths, double room);

bool has_titles(const GridBlock& block);

}  // namespace lockstep::reports
