// Reads what was written as XML. Pages are well-formed XML too, so that a strict reader can judge
// them.
#pragma once

#include <gtest/gtest.h>
#include <pugixml.hpp>

#include <string>

namespace lockstep::reports {

inline pugi::xml_document parsed(const std::string& text) {
  pugi::xml_document document;
  const auto result = document.load_string(text.c_str(), pugi::parse_default | pugi::parse_doctype);
  EXPECT_TRUE(result) << result.description() << " at "
                      << text.substr(static_cast<size_t>(result.offset), 80);
  return document;
}

inline size_t count(const pugi::xml_document& document, const char* path) {
  return document.select_nodes(path).size();
}

}  // namespace lockstep::reports
