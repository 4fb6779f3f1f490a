// Characters that files for machines may hold.
#pragma once

#include <string>
#include <string_view>

namespace lockstep::reports {

// `text` with each byte that is no part of a character legal in UTF-8 and XML 1.0 spelled "\x1b";
// line breaks and tabs stay.
std::string legible(std::string_view text);

}  // namespace lockstep::reports
