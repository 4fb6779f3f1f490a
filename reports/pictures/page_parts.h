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

// JavaScript that runs `calls` with the functions below: addSwitches(container, item) shows one
// item of each container at a time, by buttons that have the items' first headings.
std::string switching_script(std::string_view calls);

void add_table(Markup& html, const DataTable& table);

// Opens an element that readers with a keyboard can scroll, so it can have the focus.
void open_scrolling(Markup& html, const std::string& name);

// Text as a terminal shows it.
enum class Layout { wrapped, columns };
void add_lines(Markup& html, const std::vector<std::string>& lines, const std::string& name,
               Layout layout = Layout::wrapped);

// Pictures below headings ("h2"), each with its caption, its key and its numbers. Each is drawn
// once for every room that changes it. `number` counts the drawings of a page.
void add_pictures(Markup& html, const std::vector<Picture>& pictures, int& number,
                  const char* heading);

}  // namespace lockstep::reports
