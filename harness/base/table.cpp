#include "harness/base/table.h"

#include <iterator>

namespace lockstep {

Details& operator+=(Details& all, Details more) {
  all.insert(all.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  return all;
}

}  // namespace lockstep
