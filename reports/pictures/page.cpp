#include "reports/pictures/page.h"

#include "reports/pictures/page_parts.h"

namespace lockstep::reports {

std::string page(const Page& page) {
  auto html = begun_page(page.title, Scripts::none, "#settings :is(td, th) { text-align: left; }");
  html.element("p", {{"class", "finding"}}, page.finding);
  if (!page.text.empty()) html.element("p", {}, page.text);
  int number = 0;
  for (const auto& picture : page.pictures) add_picture(html, picture, ++number, "h2");
  if (!page.story.empty()) {
    html.open("section").element("h2", {}, "What the checks say");
    add_lines(html, page.story, "What the checks say");
    html.close();
  }
  if (!page.settings.rows.empty()) {
    html.open("section", {{"id", "settings"}}).element("h2", {}, "Settings");
    open_scrolling(html, "Settings");
    add_table(html, page.settings);
    html.close().close();
  }
  html.open("p").text("Again: ").element("code", {}, page.command).close();
  return ended_page(std::move(html));
}

}  // namespace lockstep::reports
