// The first divergence as a table: what the ranks recorded at one moment beside the reference.
#pragma once

#include "harness/verdict/diagnose.h"

namespace lockstep {

// The first element at which any rank differs from its expected value, row-major; 0 where none
// does, or where dtype or shape differ.
size_t first_element(const Difference& difference);

// The place of an element of a row, whose values have the shape of `like`.
FindingPlace place(const Row& row, const TensorValue& like, size_t element);

// `first` is the row to point at. Where all ranks were expected to hold the same, a table with a
// row for each of `rows`, right ones included, at its first differing element or its first, and a
// column for each rank. Otherwise a row for each rank, of the first row's values. Sentences count
// what is left out.
Details divergence(const std::vector<Difference>& rows, size_t first);

// The same for rows whose ranks only had to agree: no right value is known.
Details disagreement(const std::vector<Row>& rows, size_t first);

}  // namespace lockstep
