"""The dashboard with 1,000 records: from the command to a page that can be used."""

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from benchmarks.command import ENTRY
from benchmarks.timing import Measurement, interleave

RECORDS = 1000


def measure(repeats: int) -> Iterator[Measurement]:
    """First byte, and the page's script done, both from the start of the command."""
    from tests.support.records import write_many

    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder) / "results"
        write_many(results, RECORDS)
        sides = {"first byte": lambda: _first_byte(results)}
        if chromium is None:
            print("skipped dashboard in a browser: no Chromium", file=sys.stderr)
        else:
            sides["ready"] = lambda: _ready(results, chromium)
        seconds = interleave(sides, min(repeats, 3), warmups=1)
    for name, taken in seconds.items():
        yield Measurement(
            f"cfq-bench dashboard, {RECORDS:,} records, {name}",
            statistics.median(taken),
            "s",
            {name: taken},
            limit=3.0,
            note="from the command's start; the browser is open already",
        )


class _Command:
    """The command in a process of its own, and its page's address."""

    def __init__(self, results: Path) -> None:
        command = [sys.executable, "-u", "-c", ENTRY, "dashboard", "--no-open"]
        self.process = subprocess.Popen(
            [*command, "--results-dir", str(results)], stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        self.url = next(word for word in line.split() if word.startswith("http"))

    def end(self) -> None:
        """Stop it."""
        self.process.terminate()
        self.process.wait()


def _first_byte(results: Path) -> float:
    start = time.perf_counter()
    command = _Command(results)
    try:
        with urllib.request.urlopen(command.url) as answer:
            answer.read(1)
        return time.perf_counter() - start
    finally:
        command.end()


def _ready(results: Path, chromium: str) -> float:
    """Until the load event: tables parsed, charts drawn, filters alive."""
    from playwright.sync_api import sync_playwright

    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=arguments)
        page = browser.new_page()
        start = time.perf_counter()
        command = _Command(results)
        try:
            page.goto(command.url, wait_until="load")
            assert page.locator("#curve-charts svg").count() > 0
            assert f"{RECORDS} of {RECORDS}" in page.inner_text("#status")
            return time.perf_counter() - start
        finally:
            command.end()
            browser.close()
