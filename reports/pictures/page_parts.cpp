#include "reports/pictures/page_parts.h"

#include "harness/base/text.h"
#include "reports/pictures/svg.h"

namespace lockstep::reports {

namespace {

// The colours of ranks are Okabe and Ito's, which people with any colour vision tell apart; a
// hatch, a border or a sign stands beside each.
constexpr std::string_view kStyle = R"css(
:root { color-scheme: light dark; --paper: #fff; --ink: #1a1a1a; --faint: #ccc; --soft: .18; --axis: #555;
  --rank0: #0072b2; --rank1: #e69f00; --rank2: #009e73; --rank3: #d55e00; --rank4: #cc79a7; --rank5: #56b4e9;
  --rank6: #f0e442; --filled: #56c7a6; }
@media (prefers-color-scheme: dark) { :root { --paper: #16181c; --ink: #ececec; --faint: #444; --soft: .3;
  --axis: #aaa; --rank0: #3d9ad1; --filled: #0b6b55; } }
body { overflow-wrap: anywhere; background: var(--paper); color: var(--ink); font: 16px/1.5 system-ui, sans-serif; margin: 0 auto;
  max-width: 60rem; padding: 1rem; }
h1 { font-size: 1.1rem; } h2 { font-size: 1.1rem; margin-bottom: .25rem; }
.finding { font-size: 1.35rem; font-weight: 600; }
figure { margin: 1.5rem 0; } figcaption { font-weight: 600; }
.scroll { overflow-x: auto; } .scroll:focus-visible, summary:focus-visible { outline: 3px solid var(--rank0); }
pre, code { font: 14px/1.45 ui-monospace, monospace; } pre { overflow-wrap: anywhere; white-space: pre-wrap; } pre.columns { overflow-x: auto; white-space: pre; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { overflow-wrap: normal; border: 1px solid var(--faint); padding: .15rem .5rem; text-align: right; }
th:first-child, td:first-child { text-align: left; }
.drawings { container-type: inline-size; } .drawings > div { display: none; }
@container (max-width: 439.9px) { .drawings > .narrow { display: block; } }
@container (min-width: 440px) and (max-width: 659.9px) { .drawings > .middle { display: block; } }
@container (min-width: 660px) { .drawings > .wide { display: block; } }
.beside { display: grid; gap: 0 1.5rem; grid-template-columns: 1fr 1fr; } .beside > * { min-width: 0; }
@media (max-width: 690px) { .beside { grid-template-columns: 1fr; } }
svg { display: block; height: auto; max-width: 100%; } svg text { fill: var(--ink); font: 14px ui-monospace, monospace; }
svg .axis { fill: var(--axis); } svg .strong { font-weight: 700; }
.rank0 { --own: var(--rank0); } .rank1 { --own: var(--rank1); } .rank2 { --own: var(--rank2); }
.rank3 { --own: var(--rank3); } .rank4 { --own: var(--rank4); } .rank5 { --own: var(--rank5); }
.rank6 { --own: var(--rank6); } .reference { --own: var(--ink); } .nobody { --own: var(--axis); }
.shape { fill: var(--own); stroke: var(--ink); stroke-width: .5; } .ring { fill: none; stroke: var(--ink); stroke-width: 2; }
.cell { fill: var(--own); fill-opacity: var(--soft); stroke: var(--own); } .bar { fill: var(--own); stroke: var(--ink); }
.filled { fill: var(--filled); fill-opacity: 1; stroke: var(--ink); }
.hatched { stroke: var(--ink); stroke-width: 2; stroke-dasharray: 5 3; }
.dotted { fill: none; stroke: var(--ink); stroke-width: 2; stroke-dasharray: 1 3; }
.wrong { stroke: var(--rank3); stroke-width: 4; } .bar.wrong { fill-opacity: .35; }
.rule { stroke: var(--ink); } .faint { stroke: var(--faint); }
.point { fill: var(--ink); stroke: var(--paper); } .path { fill: none; stroke: var(--own); stroke-width: 2; } .path.reference { stroke-dasharray: 6 4; }
.path.rank1 { stroke-dasharray: 10 3; } .path.rank2 { stroke-dasharray: 2 3; } .path.rank3 { stroke-dasharray: 12 3 2 3; }
a { color: var(--ink); }
.controls { display: flex; flex-wrap: wrap; gap: .5rem; align-items: end; margin: .5rem 0; }
.controls input, .controls select, button { background: var(--paper); border: 1px solid var(--axis); color: var(--ink);
  font: inherit; padding: .25rem .5rem; }
.controls label { display: grid; } button[aria-pressed=true] { border-width: 3px; font-weight: 700; padding: calc(.25rem - 2px) calc(.5rem - 2px); }
:focus-visible { outline: 3px solid var(--rank0); outline-offset: 1px; } [hidden] { display: none; }
@media (prefers-reduced-motion: reduce) { * { animation: none !important; transition: none !important; } }
@media print { body { max-width: none; } details > * { display: block; } .scroll { overflow: visible; }
  details::details-content { display: block; content-visibility: visible; } .controls, button { display: none; }
  table { font-size: .75rem; } pre.columns { font-size: .7rem; white-space: pre-wrap; } th, td { overflow-wrap: anywhere; padding: .1rem .2rem; }
  [hidden] { display: revert; } article { break-inside: avoid-page; } h2, h3, h4 { break-after: avoid-page; } }
)css";

// The rooms for pictures, in pixels: of a telephone, of half a page, of a whole one. The style
// sheet shows the drawing that fits.
constexpr std::pair<const char*, double> kRooms[] = {
    {"narrow", 310}, {"middle", 440}, {"wide", kRoomOfPages}};

void add_drawings(Markup& html, const Picture& picture, int& number) {
  struct Drawn {
    std::string rooms, svg;
    double room;
  };
  std::vector<Drawn> all;
  for (const auto& [name, room] : kRooms) {
    auto svg = svg_of(picture, number, room);
    if (!all.empty() && all.back().svg == svg)
      all.back().rooms += std::string(" ") + name;
    else
      all.push_back({name, std::move(svg), room});
  }
  html.open("div", {{"class", "drawings"}});
  for (const auto& each : all)
    html.open("div", {{"class", each.rooms}}).raw(svg_of(picture, ++number, each.room)).close();
  html.close();
}

void add_picture(Markup& html, const Picture& picture, int& number, const char* heading) {
  html.open("section", {{"class", "picture"}}).element(heading, {}, picture.title).open("figure");
  add_drawings(html, picture, number);
  html.element("figcaption", {}, picture.caption).close();
  if (const auto key = key_of(picture); !key.empty()) {
    html.open("ul");
    for (const auto& line : key) html.element("li", {}, line);
    html.close();
  }
  html.open("details").element("summary", {}, "The numbers: " + picture.title);
  open_scrolling(html, "The numbers: " + picture.title);
  add_table(html, data_table(picture));
  html.close().close().close();
}

constexpr std::string_view kSwitch = R"js(
  function all(selector, within) { return Array.prototype.slice.call((within || document).querySelectorAll(selector)); }
  function made(tag, text, attributes) {
    var element = document.createElement(tag);
    if (text) element.textContent = text;
    Object.keys(attributes || {}).forEach(function (name) { element.setAttribute(name, attributes[name]); });
    return element;
  }

  // Several items of one kind: one at a time.
  function addSwitch(container, item) {
    var sections = all(item, container);
    if (sections.length === 0 || sections.length === 1) return;
    var controls = made('div', '', {'class': 'controls', role: 'group', 'aria-label': 'What is shown'});
    var buttons = sections.map(function (section, at) {
      var button = made('button', section.firstElementChild.textContent, {type: 'button'});
      button.addEventListener('click', function () { show(at); });
      controls.appendChild(button);
      return button;
    });
    var every = made('button', 'all', {type: 'button'});
    every.addEventListener('click', function () { show(-1); });
    controls.appendChild(every);
    function show(chosen) {
      sections.forEach(function (section, at) {
        section.hidden = chosen !== -1 ? chosen !== at : false;
        buttons[at].setAttribute('aria-pressed', String(chosen === at));
      });
      every.setAttribute('aria-pressed', String(chosen === -1));
    }
    container.insertBefore(controls, container.firstChild);
    show(0);
  }
  function addSwitches(containers, item) {
    all(containers).forEach(function (container) { addSwitch(container, item); });
  }
)js";

}  // namespace

std::string switching_script(std::string_view calls) {
  return "(function () {\n  'use strict';" + std::string(kSwitch) + std::string(calls) +
         "\n}());\n";
}

Markup begun_page(const std::string& title, Scripts scripts, std::string_view more_style) {
  Markup html;
  const std::string policy = std::string("default-src 'none'; style-src 'unsafe-inline'") +
                             (scripts == Scripts::none ? "" : "; script-src 'unsafe-inline'");
  html.raw("<!DOCTYPE html>\n").open("html", {{"lang", "en"}}).open("head");
  html.empty("meta", {{"charset", "utf-8"}})
      .empty("meta", {{"name", "viewport"}, {"content", "width=device-width, initial-scale=1"}})
      .empty("meta", {{"http-equiv", "Content-Security-Policy"}, {"content", policy}})
      .element("title", {}, title)
      .open("style")
      .raw(kStyle)
      .raw(more_style)
      .close()
      .close();
  html.open("body").open("main").element("h1", {}, title);
  return html;
}

std::string ended_page(Markup html, std::string_view script) {
  html.close();
  // For readers of XML the section hides what a script may hold.
  if (!script.empty())
    html.open("script").raw("/*<![CDATA[*/\n").raw(script).raw("/*]]>*/").close();
  return html.close().close().take();
}

void add_table(Markup& html, const DataTable& table) {
  html.open("table").open("thead").open("tr");
  for (const auto& name : table.header) html.element("th", {{"scope", "col"}}, name);
  html.close().close().open("tbody");
  for (const auto& row : table.rows) {
    html.open("tr");
    for (const auto& cell : row)
      if (&cell == &row.front())
        html.element("th", {{"scope", "row"}}, cell);
      else
        html.element("td", {}, cell);
    html.close();
  }
  html.close().close();
}

void open_scrolling(Markup& html, const std::string& name) {
  html.open("div",
            {{"class", "scroll"}, {"tabindex", "0"}, {"role", "group"}, {"aria-label", name}});
}

void add_lines(Markup& html, const std::vector<std::string>& lines, const std::string& name,
               Layout layout) {
  Markup::Attributes attributes{{"tabindex", "0"}, {"role", "group"}, {"aria-label", name}};
  if (layout == Layout::columns) attributes.emplace_back("class", "columns");
  html.element("pre", attributes, joined(lines, "\n"));
}

void add_pictures(Markup& html, const std::vector<Picture>& pictures, int& number,
                  const char* heading) {
  for (size_t i = 0; i < pictures.size(); ++i) {
    const bool is_followed = i + 1 < pictures.size() && pictures[i + 1].is_beside;
    if (is_followed && !pictures[i].is_beside) html.open("div", {{"class", "beside"}});
    add_picture(html, pictures[i], number, heading);
    if (i > 0 && pictures[i].is_beside && !is_followed) html.close();
  }
}

}  // namespace lockstep::reports
