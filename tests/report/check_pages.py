#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Opens pages of `tapestry report` and `tapestry explain` in Chromium, light and dark, narrow and wide. Fails on

    - an accessibility violation that axe-core finds,
    - an error in the console, including violations of the page's content security policy,
    - a request other than for the page itself,
    - a page that is wider than the window,
    - a region that scrolls sideways but not by keys,
    - a link to a missing part of the page,
    - a chart, heat map or matrix that does not react to keys,
    - a control that cannot be focused.

Run it by hand. Without Chromium, selenium or axe-core-python it exits with code 77 (skipped):

    apt-get install chromium chromium-driver
    python3 -m venv venv && venv/bin/pip install axe-core-python selenium
    venv/bin/python tests/report/check_pages.py --screenshots FOLDER report.html ...

It prints the size of each page, and the times until its charts are drawn and it is interactive.
"""
import argparse
import json
import pathlib
import shutil
import sys
import time

try:
    from axe_core_python.selenium import Axe
    from selenium import webdriver
    from selenium.webdriver import Keys
    from selenium.webdriver.common.by import By
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)


def start_browser():
    options = webdriver.ChromeOptions()
    for argument in ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]:
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = shutil.which("chromedriver")
    browser = webdriver.Chrome(options=options, service=webdriver.ChromeService(executable_path=driver))
    browser.set_script_timeout(300)
    return browser


def requests_of(browser, page):
    """Returns the requested URLs other than the page and data: URLs."""
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    urls = [event["params"]["request"]["url"] for event in events
            if event["method"] == "Network.requestWillBeSent"]
    return [url for url in urls if url != page and not url.startswith("data:")]


def exercise(browser):
    """Operates charts, heat maps and controls by keys and clicks; returns problems."""
    problems = []
    if charts := browser.find_elements(By.CSS_SELECTOR, ".chart svg"):
        browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", charts[0])
        charts[0].send_keys(Keys.ARROW_RIGHT, Keys.ARROW_LEFT)
        if "step" not in browser.execute_script("return document.querySelector('.tip').textContent"):
            problems.append("arrow keys in a chart show no values")
    for box in browser.find_elements(By.CSS_SELECTOR, ".controls input[type=checkbox]"):
        browser.execute_script("arguments[0].click(); arguments[0].click()", box)
    for heat in browser.find_elements(By.CSS_SELECTOR, "svg.heat"):
        heat.send_keys(Keys.ARROW_DOWN, Keys.ARROW_RIGHT)
        shown = browser.execute_script("return [...document.querySelectorAll('.readout')].map((r) => r.textContent).join()")
        if "query" not in shown:
            problems.append("arrow keys in a heat map show no weight")
    for box in browser.find_elements(By.CSS_SELECTOR, ".matrix .scroll")[:40:3]:
        box.send_keys(Keys.ARROW_DOWN, Keys.ARROW_RIGHT)
        if not browser.execute_script("return arguments[0].parentElement.querySelector('.readout').textContent", box):
            problems.append("arrow keys in a matrix show no number")
    problems += browser.execute_script("""
        const controls = [...document.querySelectorAll('a[href], button, select, input, summary, [tabindex="0"]')];
        return controls.filter((c) => { c.focus(); return c.tabIndex < 0 || document.activeElement !== c; })
          .map((c) => 'a control cannot be focused: ' + c.outerHTML.slice(0, 100));""")
    browser.execute_script("""
        for (const select of document.querySelectorAll('select')) {
          for (let i = select.options.length - 1; i >= 0 && select.isConnected; --i) {
            select.selectedIndex = i;
            select.dispatchEvent(new Event('change'));
          }
        }""")
    return problems


def check_regions(browser):
    """Returns the regions that scroll sideways but not by keys, and the links to missing parts."""
    return browser.execute_script("""
        const reaches = (box) => box.tabIndex >= 0 || box.querySelector('[tabindex="0"], button, a[href], input, select');
        const wide = [...document.querySelectorAll('.scroll')].filter((box) => box.scrollWidth > box.clientWidth + 1);
        const named = (box) => box.getAttribute('aria-label') ?? box.innerHTML.slice(0, 100);
        return [
          ...wide.filter((box) => !reaches(box)).map((box) => `cannot be scrolled by keys: ${named(box)}`),
          ...[...document.querySelectorAll('a[href^="#"]')].filter((a) => !document.getElementById(a.hash.slice(1)))
            .map((a) => `a link to ${a.hash}, which is missing`)];""")


def check(browser, file, widths, screenshots):
    page = file.resolve().as_uri()
    found = []
    for theme in ["light", "dark"]:
        for width in widths:
            browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
                "width": width, "height": 1000, "deviceScaleFactor": 1, "mobile": False})
            browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {
                "features": [{"name": "prefers-color-scheme", "value": theme}]})
            browser.get(page)
            time.sleep(0.3)
            interactive, drawn = browser.execute_script("""
                const drawn = performance.getEntriesByName('charts drawn')[0];
                const page = performance.getEntriesByType('navigation')[0];
                return [page.domInteractive, drawn ? drawn.startTime : page.domInteractive];""")
            # Keep the page of a run in progress from reloading.
            browser.execute_script("document.querySelectorAll('#subtitle input').forEach((i) => i.checked = false)")
            # Open all details to check their content as well.
            browser.execute_script("document.querySelectorAll('details').forEach((d) => d.open = true)")
            time.sleep(0.2)
            where = f"{file.name} {theme} {width}"
            found += [f"{where}: {problem}" for problem in check_regions(browser)]
            # Leave out the results of passed rules, which would take megabytes.
            for violation in Axe().run(browser, options={"resultTypes": ["violations"]})["violations"]:
                nodes = violation["nodes"]
                found.append(f"{where}: axe: {violation['id']} ({len(nodes)}): {nodes[0]['html'][:150]}"
                             f" {nodes[0]['failureSummary'][:300]}")
            found += [f"{where}: {problem}" for problem in exercise(browser)]
            for entry in browser.get_log("browser"):
                if entry["level"] in ("SEVERE", "WARNING"):
                    found.append(f"{where}: console: {entry['message']}")
            found += [f"{where}: request of {url}" for url in requests_of(browser, page)]
            overflow = browser.execute_script(
                "return document.documentElement.scrollWidth - document.documentElement.clientWidth")
            if overflow > 0:
                found.append(f"{where}: {overflow} pixels wider than the window")
            if screenshots:
                browser.execute_script("document.querySelectorAll('details').forEach((d) => d.open = false)")
                size = browser.execute_script("return document.documentElement.scrollHeight")
                browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
                    "width": width, "height": size, "deviceScaleFactor": 1, "mobile": False})
                time.sleep(0.2)
                browser.save_screenshot(str(screenshots / f"{file.stem}_{theme}_{width}.png"))
            print(f"{where}: {file.stat().st_size:,} bytes, charts drawn after {drawn:.0f} ms, "
                  f"interactive after {interactive:.0f} ms")
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("pages", nargs="+", type=pathlib.Path)
    parser.add_argument("--widths", type=int, nargs="+", default=[400, 1280, 2560], help="in pixels")
    parser.add_argument("--screenshots", type=pathlib.Path, help="folder for screenshots of the pages")
    arguments = parser.parse_args()
    if not shutil.which("chromedriver"):
        print("skipped: chromedriver is not installed")
        return 77
    if arguments.screenshots:
        arguments.screenshots.mkdir(parents=True, exist_ok=True)
    browser = start_browser()
    try:
        found = 0
        for page in arguments.pages:
            lines = check(browser, page, arguments.widths, arguments.screenshots)
            print("\n".join(lines) or f"{page.name}: no findings", flush=True)
            found += len(lines)
    finally:
        browser.quit()
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
