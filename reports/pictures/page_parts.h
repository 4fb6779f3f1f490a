// The parts of every page. A page is one HTML file that holds everything it shows: it requests
// nothing (and says so to the browser), and follows the reader's choice of light or dark.
#pragma once

#include "reports/pictures/markup.h"
#include "reports/pictures/picture.h"

namespace lockstep::reports {

// Up to the first element of its <main>; `more_style` is added to the style sheet of all pages.
enum class Scripts { none, inline_only };
Markup begun_page(const std::string& title, Scripts scripts = Scripts::none,
                  std::string_view more_style = "");

// From the end of <main>; `script` is JavaScript, or empty.
std::string ended_page(Markup html, std::string_view script = "");

void add_table(Markup& html, const DataTable& table);

// Opens an element that readers with a keyboard can scroll, so it can have the focus.
void open_scrolling(Markup& html, const std::string& name);

// Text as a terminal shows it.
void add_lines(Markup& html, const std::vector<std::string>& lines, const std::string& name);

// A picture below a heading ("h2"), with its caption, its key and its numbers. `number` tells the
// pictures of a page apart.
void add_picture(Markup& html, const Picture& picture, int number, const char* heading);

}  // namespace lockstep::reports
