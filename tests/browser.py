"""Web pages in a real browser: ``python tests/browser.py FOLDER...`` opens every one of a folder.

They are the built site, and what ``python -m tests.reports FOLDER`` writes. On a desktop in light
colours and on a phone in dark ones, a page must load without an error in its console, without a
missing file or picture, and without a link to nothing. No page is wider than the screen, no line of
code is cut. The site's search finds names and questions. It needs playwright, and Debian's or
another ``chromium`` on PATH.
"""

import contextlib
import http.server
import shutil
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from urllib.parse import unquote, urldefrag, urljoin

from playwright.sync_api import (
    Browser,
    ConsoleMessage,
    Page,
    Request,
    TimeoutError,
    sync_playwright,
)

SCREENS = {"desktop": (1300, 900, "light"), "phone": (400, 800, "dark")}

# What the search box is asked, and a word of the address that must be among the first results.
SEARCHES = {
    "private_embedding": "jobs",
    "predict_from_counts": "friendships",
    "DPRR": "lists",
    "SquareWave": "numbers",
    "verification.check": "verification",
    "bench.compare": "bench",
    "Session": "deployment",
    "ledger": "guarantees",
    "HyperbolicGaussian": "hyperbolic",
    "link stealing": "attacks",
    "compare your own method": "own-method",
    "serve a class protocol": "how-to",
    "pandas names": "how-to",
    "trusted curator": "curators",
    "many devices": "many_devices",
    "what does epsilon mean": "/guarantees",
    "who must be trusted": "threat-models",
}

MEASURE = """() => {
  const wide = [...document.querySelectorAll('pre, pre > code')].filter(
    code => code.scrollWidth > code.clientWidth + 1).map(code => code.innerText.slice(0, 60));
  const pictures = [...document.images].filter(
    image => image.complete && !image.naturalWidth).map(image => image.src);
  const links = [...document.querySelectorAll('a[href]')].map(link => link.href);
  const anchors = [...document.querySelectorAll('[id], a[name]')].map(
    node => node.id || node.name);
  return {wide, pictures, links, anchors, width: document.documentElement.scrollWidth};
}"""

FOUND = """wanted => [...document.querySelectorAll('.md-search-result__link')].slice(0, 12).some(
  link => link.href.includes(wanted))"""


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Files of a folder, without a line for each."""

    def log_message(self, *_):
        pass


def served(folder: Path) -> str:
    """The address of a folder, for as long as the process lives."""
    handler = partial(Quiet, directory=folder)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}/"


def unanswered(request: Request) -> Iterator[str]:
    """A request that failed; the browser itself ends those of a page that is left."""
    if request.failure != "net::ERR_ABORTED":
        yield f"no answer: {request.url}"


def told(said: ConsoleMessage) -> Iterator[str]:
    """An error in the console; a report of one file has no icon, for which the browser asks."""
    if said.type == "error" and not said.location["url"].endswith("favicon.ico"):
        yield f"console: {said.text}"


def opened(browser: Browser, screen: str) -> tuple[Page, list[str]]:
    """A page of a screen's size, and what goes wrong on it from now on."""
    width, height, colours = SCREENS[screen]
    page = browser.new_page(
        viewport={"width": width, "height": height},
        is_mobile=screen == "phone",
        color_scheme=colours,
        reduced_motion="reduce",
    )
    errors: list[str] = []
    page.on("console", lambda said: errors.extend(told(said)))
    page.on("pageerror", lambda error: errors.append(f"script: {error}"))
    page.on("requestfailed", lambda request: errors.extend(unanswered(request)))
    return page, errors


def faults(
    page: Page, errors: list[str], address: str, width: int, anchors: dict[str, set[str]]
) -> Iterator[str]:
    """What is wrong with one page; its anchors are noted."""
    errors.clear()
    page.goto(address, wait_until="load")
    found = page.evaluate(MEASURE)
    anchors[address] = set(found["anchors"])
    yield from errors
    yield from (f"a picture that does not load: {one}" for one in found["pictures"])
    yield from (f"code is cut: {one!r}" for one in found["wide"])
    if found["width"] > width:
        yield f"{found['width']} pixels wide on a screen of {width}"
    for link in found["links"]:
        anchors.setdefault("links", set()).add(f"{address} {link}")


def dead(anchors: dict[str, set[str]], site: str, folder: Path) -> Iterator[str]:
    """Links within the site that lead to no page, or to no place on it."""
    for both in sorted(anchors.pop("links", ())):
        address, link = both.split(" ", 1)
        target, place = urldefrag(urljoin(address, link))
        if not target.startswith(site):
            continue
        path = folder / unquote(target.removeprefix(site))
        if not (path / "index.html").exists() and not path.is_file():
            yield f"{address}: no page at {link}"
        elif place and target in anchors and unquote(place) not in anchors[target]:
            yield f"{address}: no place at {link}"


def unfound(page: Page, site: str) -> Iterator[str]:
    """Searches whose first results lack the page that they should lead to."""
    for asked, wanted in SEARCHES.items():
        page.goto(site, wait_until="load")
        page.click("input.md-search__input")
        page.keyboard.type(asked)
        with contextlib.suppress(TimeoutError):
            page.wait_for_function(FOUND, arg=wanted, timeout=10_000)
            continue
        first = page.evaluate("[...document.querySelectorAll('.md-search-result__link')].join(' ')")
        yield f"the search for {asked!r} leads to no {wanted!r} but {first[:200]}"


def main(*folders: Path) -> int:
    """Print what is wrong; the number of faults."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        print("no chromium on PATH: the site is not opened")
        return 0
    found = []
    count = 0
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for folder in folders:
            site = served(folder)
            pages = sorted(str(path.relative_to(folder)) for path in folder.rglob("*.html"))
            count += len(pages)
            anchors: dict[str, set[str]] = {}
            for screen, (width, *_) in SCREENS.items():
                page, errors = opened(browser, screen)
                for path in pages:
                    address = site + path.removesuffix("index.html")
                    for fault in faults(page, errors, address, width, anchors):
                        found.append(f"{screen}, {path}: {fault}")
            found += dead(anchors, site, folder)
            if (folder / "search").exists():
                found += unfound(opened(browser, "desktop")[0], site)
        browser.close()
    print("\n".join([*found, f"{count} pages on {len(SCREENS)} screens: {len(found)} faults"]))
    return len(found)


if __name__ == "__main__":
    sys.exit(min(main(*map(Path, sys.argv[1:])), 1))
