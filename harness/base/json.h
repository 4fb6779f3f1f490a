// The one JSON type of the tree: it keeps the order in which fields were written.
#pragma once

#include <nlohmann/json.hpp>

namespace lockstep {

using Json = nlohmann::ordered_json;

}  // namespace lockstep
