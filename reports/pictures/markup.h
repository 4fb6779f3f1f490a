// Writes HTML and SVG. Everything that is not a tag is escaped here, and nowhere else.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::reports {

// Text as HTML and XML show it; control characters and those that turn the direction of text are
// spelled ("\x1b"), as `legible` does.
std::string escaped(std::string_view text);

class Markup {
 public:
  using Attributes = std::vector<std::pair<std::string_view, std::string>>;

  // An element with content: from open() to the close() that belongs to it.
  Markup& open(std::string_view tag, const Attributes& attributes = {});
  Markup& close();
  Markup& text(std::string_view text);
  Markup& name(std::string_view name);  // a text that a line breaks behind "." and "_"

  // An element that holds text alone, and one that holds nothing and has no end.
  Markup& element(std::string_view tag, const Attributes& attributes, std::string_view text);
  Markup& empty(std::string_view tag, const Attributes& attributes = {});

  // Appends text that is markup already: a document type, a style sheet, another Markup's text.
  Markup& raw(std::string_view markup);

  // Throws std::logic_error while an element is open.
  std::string take();

 private:
  void begin(std::string_view tag, const Attributes& attributes);
  std::string out_;
  std::vector<std::string> open_;
};

}  // namespace lockstep::reports
