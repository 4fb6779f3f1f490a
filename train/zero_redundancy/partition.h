#pragma once

#include <cstddef>
#include <vector>

namespace lockstep {

// The rank that receives each of these parameters: the largest first, of equal ones the first, each
// to the rank that has the least, of those the lowest. `bytes_by_rank` has what each rank was given
// before, at least one rank, and is updated. Local.
std::vector<int> give_out(const std::vector<std::size_t>& bytes_of_parameters,
                          std::vector<std::size_t>& bytes_by_rank);

}  // namespace lockstep
