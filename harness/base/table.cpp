#include "harness/base/table.h"

#include <array>
#include <iterator>

namespace lockstep {

std::string_view name_of(Table::Holds holds) {
  static constexpr std::array<std::string_view, 4> kNames{"name", "reference", "value", "measure"};
  return kNames[static_cast<size_t>(holds)];
}

std::string_view name_of(Table::Mark mark) {
  static constexpr std::array<std::string_view, 3> kNames{"none", "wrong", "first"};
  return kNames[static_cast<size_t>(mark)];
}

Details& operator+=(Details& all, Details more) {
  all.insert(all.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  return all;
}

}  // namespace lockstep
