"""Pages in a browser: they request nothing, report no error, are accessible in light and dark, fit a narrow screen, say
without JavaScript all that they say with it, and have the numbers of run.json.

Without Chromium or playwright the tests are skipped, with the reason: ./lockstep setup --pages installs both."""

import html.parser
import json
import os
import re
import shutil
import subprocess
import sys
import unittest

from program_case import HERE, PROGRAM, ProgramCase

ROOT = os.path.dirname(os.path.dirname(HERE))
DRIVER = os.path.join(ROOT, ".venv-pages", "bin", "python")
BUILDER = os.path.join(ROOT, ".venv-docs", "bin", "python")
SKIP = 77
BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
WIDTHS = (360, 768, 1280)
PAPER = 718  # A4 within Chromium's margins
READABLE = 0.85  # as large as the text of a picture may be shown, beside 14 pixels
# Checks pages for screen readers and legibility: all of axe's rules but those of whole sites.
AXE_OPTIONS = {"resultTypes": ["violations"]}


def browser():
    """The path of a Chromium, or none."""
    return next(filter(None, map(shutil.which, BROWSERS)), None)


def skip(why):
    print(why + ": ./lockstep setup --pages installs it")
    sys.exit(SKIP)


try:
    from axe_playwright_python.sync_playwright import Axe
    from playwright.sync_api import sync_playwright
except ImportError:
    if os.path.exists(DRIVER) and os.path.realpath(sys.prefix) != os.path.realpath(os.path.dirname(os.path.dirname(DRIVER))):
        os.execv(DRIVER, [DRIVER, "-B", *sys.argv])
    skip("no Python here has playwright and axe")


# Each drawing that is shown: its name, how large it is drawn, by how much it is wider than its place, and by how much
# something in it is outside of it.
DRAWINGS = """Array.from(document.querySelectorAll('svg')).filter(svg => svg.checkVisibility()).map(svg => {
  const box = svg.getBoundingClientRect();
  const place = svg.closest('.drawings').getBoundingClientRect();
  const outside = Array.from(svg.querySelectorAll('text, rect, line, polyline, polygon, circle')).map(each => {
    const own = each.getBoundingClientRect();
    return Math.max(own.right - box.right, box.left - own.left, own.bottom - box.bottom, box.top - own.top);
  });
  return [svg.querySelector('title').textContent, svg.getScreenCTM().a, box.right - place.right, Math.max(...outside)];
})"""


# The beginnings of texts that are wider than their places, of which only a table may be, which a screen scrolls.
CUT = """print => Array.from(document.querySelectorAll('pre')).filter(pre => pre.checkVisibility())
  .filter(pre => pre.scrollWidth > pre.clientWidth + 1 && (print || !pre.classList.contains('columns')))
  .map(pre => pre.textContent.trim().slice(0, 80))"""
# The words of tables that stand on several lines.
BROKEN = """Array.from(document.querySelectorAll('#list th')).filter(cell => cell.checkVisibility()).filter(cell => {
  const range = document.createRange();
  range.selectNodeContents(cell);
  return range.getClientRects().length > 1;
}).map(cell => cell.textContent)"""


# Finds what a page of the documentation cuts on paper.
CUT_OF_SITE = """Array.from(document.querySelectorAll('article pre, article table, article img')).filter(each => {
  const edge = document.querySelector('article').getBoundingClientRect().right + 1;
  return each.getBoundingClientRect().right > edge || each.scrollWidth > each.clientWidth + 1;
}).map(each => each.tagName + ' ' + each.textContent.trim().slice(0, 80))"""


# The names of scenarios of which a line ends within a word.
BROKEN_NAMES = """Array.from(document.querySelectorAll('#list a, #results th[scope=row]')).filter(each => each.checkVisibility()).filter(each => {
  const range = document.createRange(), text = Array.from(each.childNodes).filter(node => node.nodeType === Node.TEXT_NODE);
  return text.some(node => {
    range.selectNodeContents(node);
    return new Set(Array.from(range.getClientRects()).map(box => box.top)).size > 1;
  });
}).map(each => each.textContent)"""


class Text(html.parser.HTMLParser):
    """The text of a page as it was written, without scripts and styles."""

    def __init__(self, text):
        super().__init__()
        self.hidden, self.text = 0, ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.hidden += tag in ("script", "style")

    def handle_endtag(self, tag):
        self.hidden -= tag in ("script", "style")

    def handle_data(self, data):
        if not self.hidden:
            self.text += data


def words(text):
    return re.sub(r"\s+", " ", text)


class PageCase(ProgramCase):
    @classmethod
    def setUpClass(cls):
        cls.playwright = sync_playwright().start()
        # As root, as in a container, Chromium has no sandbox.
        cls.chromium = cls.playwright.chromium.launch(executable_path=browser(), args=["--no-sandbox"])

    @classmethod
    def tearDownClass(cls):
        cls.chromium.close()
        cls.playwright.stop()

    def opened(self, path, width=1280, scheme="light", scripts=True):
        """A page in a window of its own, and what went wrong so far: requests of other files, errors."""
        window = self.chromium.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme,
                                           java_script_enabled=scripts, reduced_motion="reduce", offline=True)
        self.addCleanup(window.close)
        page, wrong = window.new_page(), []
        own = "file://" + path.replace(" ", "%20")
        page.on("request", lambda request: request.url.split("#")[0] == own or wrong.append("requests " + request.url))
        page.on("console", lambda message: wrong.append("says " + message.text))
        page.on("pageerror", lambda error: wrong.append("throws " + str(error)))
        page.goto(own)
        return page, wrong

    def page_of(self, *arguments, status):
        """The path of the page that a command writes."""
        path = os.path.join(self.folder, "page of %d.html" % len(os.listdir(self.folder)))
        done, out, err = self.run_program(*arguments, "--html", path)
        self.assertEqual(done, status, out + err)
        return path

    def assert_fits(self, path):
        for width in (*WIDTHS, PAPER):
            page, wrong = self.opened(path, width)
            with self.subTest(width=width):
                if width == PAPER:
                    page.emulate_media(media="print")
                self.assertLessEqual(page.evaluate("document.documentElement.scrollWidth"), width, "it scrolls sideways")
                self.assert_pictures_fit(page)
                self.assertEqual(page.evaluate(CUT, width == PAPER), [])
                self.assertEqual(page.evaluate(BROKEN), [])
                self.assertEqual(page.evaluate(BROKEN_NAMES), [])
                self.assertEqual(wrong, [])
            page.context.close()

    def assert_readable(self, path):
        self.assert_fits(path)
        for width in WIDTHS:
            for scheme in ("light", "dark"):
                page, wrong = self.opened(path, width, scheme)
                with self.subTest(width=width, scheme=scheme):
                    found = Axe().run(page, options=AXE_OPTIONS)
                    self.assertEqual(found.violations_count, 0, found.generate_report())
                    self.assertEqual(wrong, [])
                page.context.close()

    def assert_pictures_fit(self, page):
        """Each is whole and readable, in one drawing."""
        drawings = page.evaluate(DRAWINGS)
        figures = page.locator("figure").all()
        self.assertEqual(len(drawings), sum(figure.is_visible() for figure in figures))
        for name, scale, wider, outside in drawings:
            self.assertGreaterEqual(scale, READABLE, name)
            self.assertLessEqual(max(wider, outside), 0.5, name)

    def assert_whole_without_scripts(self, path):
        page, wrong = self.opened(path, scripts=False)
        with open(path, encoding="utf-8") as file:
            written = words(Text(file.read()).text)
        for section in page.locator("main > section").all():
            text = words(section.inner_text())
            self.assertTrue(section.is_visible(), text[:80])
        for each in page.locator("article, article > details > summary").all():
            self.assertTrue(each.is_visible())
        for story in page.locator("article > details").all():
            if story.get_attribute("open") is None:
                story.locator("summary").first.click()
        for each in page.locator("figure, pre").all():
            self.assertTrue(each.is_visible())
        heading = words(page.locator("h1").inner_text())
        self.assertTrue(heading.strip())
        self.assertIn(heading, written)
        self.assertEqual(page.locator("button, input, select").count(), 0, "nothing is there that does nothing")
        self.assertEqual(wrong, [])

    def assert_numbers(self, path, run):
        """Every result of run.json is on the page, and nothing else is."""
        page, _ = self.opened(path)
        page.evaluate("document.querySelectorAll('details').forEach(details => details.open = true)")
        cells = page.locator("#results td").evaluate_all(
            "cells => cells.map(cell => [cell.parentElement.dataset.scenario, cell.dataset.result,"
            " cell.dataset.judged ? Number(cell.dataset.judged) : null, cell.innerText])")
        self.assertEqual(
            sorted((name, result, judged) for name, result, judged, _ in cells if judged is not None),
            sorted((result["scenario"], result["result"], result["judged"]) for result in run["results"]))
        for name, result, judged, text in cells:
            if judged:
                self.assertIn("{:,} case".format(judged), text, name)
            self.assertIn(result, text)
        judged = sum(result["judged"] for result in run["results"])
        self.assertIn("{:,} case".format(judged), page.locator("#judged").inner_text())
        stories = page.locator("#failures article").count()
        self.assertEqual(stories, sum(result["result"] not in ("pass", "skip") for result in run["results"]))
        for result in run["results"]:
            for finding in result["findings"][:1] if result["result"] not in ("pass", "skip") else []:
                heading = page.locator("h3", has_text=re.compile(r"\b%s\b" % re.escape(result["scenario"])))
                for story in page.locator("#failures article", has=heading).all():
                    self.assertIn(words(finding["text"].split("\n")[0]), words(story.locator(".diagnosis").inner_text()))


class Failing(PageCase):
    """Toys that fail in every way."""

    def test_a_page_of_every_kind_of_failure(self):
        path = self.page_of("run", "toys.multiply", "toys.average", "toys.hang", "toys.crash_in_a_step", "toys.throw",
                            "toys.check_throws", "toys.refuse", "toys.hold", "--seed", "7", "--timeout", "1",
                            "--shrink-time", "1", status=1)
        run = self.latest()
        self.assert_readable(path)
        self.assert_list_fits(path)
        self.assert_whole_without_scripts(path)
        self.assert_numbers(path, run)
        page, wrong = self.opened(path)
        self.assertGreaterEqual(page.locator("#failures svg").count(), 3)
        self.follow_links(page)
        self.filter_and_switch(page)
        self.assertEqual(wrong, [])
        report = self.page_of("report", ".lockstep", status=1)
        with open(path, encoding="utf-8") as file, open(report, encoding="utf-8") as other:
            self.assertEqual(self.figures(file.read()), self.figures(other.read()), "a stored run has the same pictures")

    def assert_list_fits(self, path):
        """On a phone the list of failures has each diagnosis below its scenario, and nothing of it out of sight."""
        page, _ = self.opened(path, min(WIDTHS))
        within = page.locator("#list .scroll").evaluate("each => [each.scrollWidth, each.clientWidth]")
        self.assertEqual(within[0], within[1])
        page.context.close()

    def follow_links(self, page):
        """Each line of the list of failures opens its story, and one is open from the beginning."""
        stories = page.locator("#failures article > details")
        self.assertEqual([story.get_attribute("open") is not None for story in stories.all()],
                         [True] + [False] * (stories.count() - 1))
        links = page.locator("#list a")
        self.assertEqual(links.count(), stories.count())
        for number, link in enumerate(links.all()):
            link.click()
            stories.nth(number).locator(".diagnosis").wait_for(state="visible")

    def filter_and_switch(self, page):
        rows = page.locator("#results tbody tr")
        page.locator("#filter-name").fill("multiply")
        self.assertEqual([row.get_attribute("data-scenario") for row in rows.all() if row.is_visible()],
                         ["toys.multiply"])
        page.locator("#filter-name").fill("")
        page.locator("#filter-kind").select_option("skip")
        self.assertEqual([row.get_attribute("data-scenario") for row in rows.all() if row.is_visible()], ["toys.refuse"])
        page.locator("#filter-kind").select_option("")
        for pictures in page.locator(".pictures:has(.controls)").all():
            shown = [picture for picture in pictures.locator(".picture").all() if picture.is_visible()]
            self.assertEqual(len(shown), 1)
            pictures.locator("button", has_text="all").focus()
            page.keyboard.press("Enter")
            self.assertTrue(all(picture.is_visible() for picture in pictures.locator(".picture").all()))
            pictures.locator("button").first.click()  # so that paper has what the screen hides
        page.emulate_media(media="print")
        self.assertFalse(page.locator("button").first.is_visible())
        self.assertTrue(all(picture.is_visible() for picture in page.locator(".picture").all()))

    @staticmethod
    def figures(text):
        return re.findall(r"<figure>.*?</figure>", re.sub(r"picture\d+", "picture", text), re.S)


class Passing(PageCase):
    def test_a_page_of_passes_shows_what_happened(self):
        path = self.page_of("run", "toys.hold", "toys.hold_too", "--seed", "7", status=0)
        self.assert_readable(path)
        self.assert_whole_without_scripts(path)
        self.assert_numbers(path, self.latest())
        page, _ = self.opened(path)
        self.assertGreaterEqual(page.locator("#histories svg").count(), 1)
        self.assertIn("--seed 7", page.locator("#verdict pre").inner_text())

    def test_a_replay_has_a_page(self):
        self.run_program("run", "toys.multiply", "--seed", "7", "--no-shrink")
        (case,) = os.listdir(self.path("failures"))
        path = self.page_of("replay", self.path("failures", case), status=1)
        self.assert_readable(path)
        self.assert_numbers(path, self.latest())


class Own(PageCase):
    """Lockstep's own program."""

    def test_a_run_of_lockstep_shows_its_histories(self):
        path = self.page_of("run", "sampler.partitions_the_dataset", "gradients.match_single_process",
                            "buffers.follow_rank_zero", "--tier", "sim", "--cases", "6", "--seed", "7", status=0)
        self.assert_readable(path)
        self.assert_numbers(path, self.latest())
        page, _ = self.opened(path)
        self.assertEqual(page.locator("#histories article").count(), 3)
        self.assertIn("Which rank drew which sample", page.locator("#histories").inner_text())

    def test_a_page_of_many_ranks_fits(self):
        self.assert_fits(self.page_of("demo", "scale", "--set", "world=16", status=0))

    def test_a_switch_shows_one_run_or_all(self):
        path = self.page_of("demo", "buffers", status=0)
        self.assert_readable(path)
        page, wrong = self.opened(path)
        runs = page.locator("article")
        self.assertEqual([run.is_visible() for run in runs.all()], [True, False, False])
        beside = page.locator("article:visible .beside").first.locator("> section").all()
        places = [picture.bounding_box() for picture in beside]
        self.assertEqual(len(places), 4)
        self.assertEqual([places[0]["y"], places[2]["y"]], [places[1]["y"], places[3]["y"]], "two by two")
        self.assertGreater(places[2]["y"], places[0]["y"])
        page.locator(".runs > .controls button", has_text="not_converted").click()
        self.assertEqual([run.is_visible() for run in runs.all()], [False, True, False])
        page.locator(".runs > .controls button", has_text="all").click()
        self.assertTrue(all(run.is_visible() for run in runs.all()))
        self.assertEqual(wrong, [])

    def test_a_site_links_all_of_its_pages(self):
        folder = os.path.join(self.folder, "site")
        done, out, err = self.run_program("demo", "all", "--html", folder)
        self.assertEqual((done, out), (0, ""), err)
        index = os.path.join(folder, "index.html")
        self.assert_readable(index)
        page, _ = self.opened(index)
        linked = [link.get_attribute("href") for link in page.locator("a").all()]
        self.assertEqual(sorted(linked + ["index.html"]), sorted(os.listdir(folder)))
        _, demonstrations, _ = self.run_program("demo")
        _, beliefs, _ = self.run_program("demo", "beliefs")
        named = re.findall(r"(?m)^\d+\. (\w+)|^(belief-\d+) ", demonstrations + beliefs)
        self.assertEqual({name + ".html" for pair in named for name in pair if name}, set(linked))
        for name in os.listdir(folder):
            path = os.path.join(folder, name)
            with open(path, encoding="utf-8") as file:
                for address in re.findall(r'href="([^"]*)"', file.read()):
                    self.assertIn(address, os.listdir(folder), name)
            with self.subTest(name):
                self.assert_fits(path)
                self.assert_whole_without_scripts(path)


class Recorded(PageCase):
    def test_a_recorded_run_has_a_page(self):
        run = os.path.join(os.path.dirname(HERE), "judge", "vectors", "learning_rate")
        path = self.page_of("judge", run, "--json", "run.json", status=1)
        self.assert_readable(path)
        self.assert_whole_without_scripts(path)
        with open(os.path.join(self.folder, "run.json"), encoding="utf-8") as file:
            self.assert_numbers(path, json.load(file))


class Site(PageCase):
    """The documentation that ./lockstep docs builds, opened as files."""

    def setUp(self):
        super().setUp()
        self.site = os.path.join(self.folder, "site")
        subprocess.run([BUILDER, "-B", os.path.join(ROOT, "docs", "site", "build.py"), "--out", self.site, "--source",
                        os.path.join(self.folder, "source")], stdout=subprocess.DEVNULL, check=True, timeout=250)

    def opened_of_site(self):
        """A window, and what went wrong in it: requests of files beyond the site's, errors."""
        window = self.chromium.new_context(color_scheme="light", reduced_motion="reduce", offline=True)
        self.addCleanup(window.close)
        page, wrong = window.new_page(), []
        own = ("file://" + self.site.replace(" ", "%20"), "data:", "about:")
        page.on("request", lambda request: request.url.startswith(own) or wrong.append("requests " + request.url))
        page.on("console", lambda message: wrong.append("says " + message.text))
        page.on("pageerror", lambda error: wrong.append("throws " + str(error)))
        return page, wrong

    def test_every_page_fits_screens_and_paper(self):
        page, wrong = self.opened_of_site()
        # 404.html is for a server. The demonstrations' pages are Own's.
        names = [os.path.join(folder, name) for folder, _, names in os.walk(self.site) for name in names
                 if name.endswith(".html") and name != "404.html"]
        self.assertGreater(len(names), 100)
        for name in names:
            with self.subTest(name):
                page.emulate_media(media="screen")
                page.goto("file://" + name)
                for width in (*WIDTHS, PAPER):
                    page.set_viewport_size({"width": width, "height": 900})
                    if width == PAPER:
                        page.emulate_media(media="print")
                    self.assertLessEqual(page.evaluate("document.documentElement.scrollWidth"), width, width)
                self.assertEqual(page.evaluate(CUT_OF_SITE), [])
        self.assertEqual(wrong, [])

    def test_the_search_finds_a_page_without_a_server(self):
        page, wrong = self.opened_of_site()
        page.goto("file://" + os.path.join(self.site, "index.html"))
        page.locator("input.md-search__input").first.click()
        page.locator("input.md-search__input").first.press_sequentially("SyncBatchNorm")
        found = page.locator(".md-search-result__link").first
        found.wait_for(state="attached", timeout=20_000)
        self.assertIn(".html", found.get_attribute("href"))
        self.assertEqual(wrong, [])


if __name__ == "__main__":
    if "Site" in sys.argv[1:] and not os.path.exists(BUILDER):
        print("there is no .venv-docs: ./lockstep docs makes it")
        sys.exit(SKIP)
    if browser() is None:
        skip("no Chromium is installed")
    unittest.main()
