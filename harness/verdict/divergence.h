// The first divergence as text: what the ranks recorded at one moment beside the reference.
#pragma once

#include "harness/verdict/diagnose.h"

namespace lockstep {

// The first element at which any rank differs from its expected value, row-major; 0 where none
// does, or where dtype or shape differ.
size_t first_element(const Difference& difference);

// "step 1, after, w[1, 1]", the index being that of a value of `like`'s shape.
std::string place(const Row& row, const TensorValue& like, size_t element);

// Lines for a reader, `first` being the row to point at. Where all ranks were expected to hold the
// same, a table: a line for each of `rows`, right ones included, at its first differing element or
// its first; a column for each rank. Otherwise a line for each rank of the first row. Rows that are
// left out are counted.
std::vector<std::string> divergence(const std::vector<Difference>& rows, size_t first);

// The same for rows whose ranks only had to agree: no right value is known.
std::vector<std::string> disagreement(const std::vector<Row>& rows, size_t first);

}  // namespace lockstep
