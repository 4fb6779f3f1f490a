#include "reports/pictures/page.h"

#include "reports/pictures/page_parts.h"

namespace lockstep::reports {

namespace {

constexpr std::string_view kPageStyle = R"css(
#settings :is(td, th) { text-align: left; }
.run { border-top: 3px solid var(--faint); margin-top: 1.5rem; } dt { font-weight: 600; margin-top: .5rem; }
h3 { font-size: 1.05rem; }
@media (max-width: 480px) { #settings :is(table, tbody, tr, td, th) { border: 0; display: block; }
  #settings thead { display: none; } #settings tr { border-bottom: 1px solid var(--faint); } }
)css";

void add_body(Markup& html, const PageRun& run, int& number, const char* heading) {
  add_pictures(html, run.pictures, number, heading);
  if (!run.story.empty()) {
    const auto name = "What the checks say" + (run.name.empty() ? "" : ": " + run.name);
    html.open("section").element(heading, {}, "What the checks say");
    add_lines(html, run.story, name, Layout::columns);
    html.close();
  }
  html.open("p").text("Again: ").element("code", {}, run.command).close();
}

void add_runs(Markup& html, const PageRun& first, const Page& page, int& number) {
  html.open("section", {{"class", "runs"}});
  auto runs = page.others;
  runs.insert(runs.begin(), first);
  for (const auto& run : runs) {
    html.open("article", {{"class", "run"}}).element("h2", {}, run.name);
    if (&run != &runs.front()) html.element("p", {{"class", "finding"}}, run.finding);
    if (!run.text.empty()) html.element("p", {}, run.text);
    add_body(html, run, number, "h3");
    html.close();
  }
  html.close();
}

void add_settings(Markup& html, const DataTable& settings) {
  html.open("section", {{"id", "settings"}}).element("h2", {}, "Settings");
  open_scrolling(html, "Settings");
  add_table(html, settings);
  html.close().close();
}

void add_next(Markup& html, const std::vector<PageLink>& links) {
  html.open("section", {{"id", "next"}}).element("h2", {}, "What to try next").open("dl");
  for (const auto& link : links) {
    html.open("dt");
    if (link.address.empty())
      html.element("code", {}, link.command);
    else
      html.open("a", {{"href", link.address}}).element("code", {}, link.command).close();
    html.close().element("dd", {}, link.meaning);
  }
  html.close().close();
}

}  // namespace

std::string page(const Page& page) {
  const bool has_several = !page.others.empty();
  auto html =
      begun_page(page.title, has_several ? Scripts::inline_only : Scripts::none, kPageStyle);
  html.element("p", {{"class", "finding"}}, page.finding);
  if (!page.text.empty()) html.element("p", {}, page.text);
  int number = 0;
  const PageRun first{.name = page.name,
                      .text = "",
                      .finding = page.finding,
                      .pictures = page.pictures,
                      .story = page.story,
                      .command = page.command};
  if (has_several)
    add_runs(html, first, page, number);
  else
    add_body(html, first, number, "h2");
  if (!page.settings.rows.empty()) add_settings(html, page.settings);
  if (!page.next.empty()) add_next(html, page.next);
  return ended_page(std::move(html),
                    has_several ? switching_script("addSwitches('.runs', 'article');") : "");
}

std::string page(const Index& index) {
  auto html = begun_page(index.title, Scripts::none, kPageStyle);
  html.element("p", {}, index.text);
  for (const auto& [title, entries] : index.groups) {
    html.open("section").element("h2", {}, title).open("dl");
    for (const auto& entry : entries) {
      html.open("dt").element("a", {{"href", entry.address}}, entry.name);
      html.text(": " + entry.text).close();
      html.element("dd", {}, entry.finding);
    }
    html.close().close();
  }
  return ended_page(std::move(html));
}

}  // namespace lockstep::reports
