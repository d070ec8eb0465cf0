#!/usr/bin/env python3
"""Makes the pictures of the README from a finished run, with headless Chromium.

    python3 scripts/make-pictures.py RUN [--radar REPORT] [--game FILE:ROW] [--spag PROGRAM]
    python3 scripts/make-pictures.py --chart "Tasks and models" runs/smollm2-135m/report.html docs/radar-smollm2.png
    python3 scripts/make-pictures.py --chart "Exploitability by games" kuhn.html docs/kuhn.png

docs/page.png is a game of RUN on the page of `spag serve`: by default the first evaluation game of the last model as defender
that it wins after three turns. docs/radar.png is the radar plot in REPORT, by default RUN/report.html. --chart makes the picture of one
chart of a report, or of a page of `spag compare`, by its title. The program is spag on PATH, or one that is built here. Each picture is a PNG of less than 300 KB. Needs
Chromium on PATH, or CHROMIUM set to its path.
"""
import argparse
import base64
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
LIMIT = 300_000
NAMES = ["chromium", "chromium-browser", "google-chrome"]


def chromium():
    found = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    return found or sys.exit("install Chromium, or set CHROMIUM to its path")


def program():
    """spag on PATH, or else the one of this folder, which is built if it is missing."""
    if found := shutil.which("spag"):
        return pathlib.Path(found)
    built = ROOT / "target/release/spag"
    if not built.exists():
        print("There is no spag on PATH: building it with cargo, which takes some minutes.", file=sys.stderr)
        subprocess.run(["cargo", "build", "--release", "--bin", "spag"], cwd=ROOT, check=True)
    return built


def shoot(url, size, to):
    """A picture of an address. Twice as many pixels as the page has, for sharp text."""
    with tempfile.TemporaryDirectory() as profile:
        command = [
            chromium(), "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--force-device-scale-factor=1.5",
            f"--user-data-dir={profile}", f"--window-size={size[0]},{size[1]}", "--virtual-time-budget=10000",
            f"--screenshot={to}", url,
        ]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=120)
    if to.stat().st_size >= LIMIT:
        sys.exit(f"{to} has {to.stat().st_size} bytes, more than {LIMIT}; choose a shorter game")
    print(f"{to.relative_to(ROOT)}: {to.stat().st_size} bytes")


def choose(run):
    """The file and the row of a game that shows the rules."""
    files = sorted(run.glob("eval/im-vs-spag-*.jsonl"))
    if not files:
        sys.exit(f"{run} has no eval/im-vs-spag-*.jsonl; name a finished run, or --game FILE:ROW")
    rows = enumerate(map(json.loads, files[-1].read_text().splitlines()), 1)
    for row, game in rows:
        said = [one["content"] for one in game["history"]]
        ends = said and f"I know the word! It is {game['target_word']}" in said[-1]
        if ends and len(said) == 6 and len(set(said)) == len(said):
            return f"{files[-1].relative_to(run)}:{row}"
    sys.exit(f"{files[-1]} has no game that fits; choose one with --game FILE:ROW")


def page(run, spag, game):
    models = sorted(run.glob("spag-*/model")) or sys.exit(f"{run} has no spag-N/model")
    file, _, row = (game or choose(run)).rpartition(":")
    episode = json.loads((run / file).read_text().splitlines()[int(row) - 1])
    attacker, _, defender = pathlib.Path(file).stem.partition("-vs-")
    link = {
        "w": episode["target_word"], "t": episode["max_turns"], "s": 0, "a": attacker or "model", "d": defender or "model",
        "g": False, "h": [one["content"] for one in episode["history"]],
    }
    link = base64.urlsafe_b64encode(json.dumps(link).encode()).decode().rstrip("=")
    server = subprocess.Popen([spag, "serve", models[-1], "--run", run, "--port", "0"], stdout=subprocess.PIPE, text=True)
    try:
        address = server.stdout.readline().removeprefix("listening on ").strip()
        shoot(f"{address}/#game={link}", (900, 470 + 73 * len(episode["history"])), ROOT / "docs/page.png")
    finally:
        server.terminate()
        server.wait()


def chart(report, fits, to):
    """The first chart of a report that fits."""
    text = report.read_text()
    found = re.search(r'(<script type="application/json" id="document">)(.*?)(?=</script>)', text, re.DOTALL)
    parts = [part for section in json.loads(found[2])["sections"] for part in section["parts"]] if found else []
    charts = [chart for part in parts for chart in part.get("charts", []) if fits(chart)]
    if not charts:
        sys.exit(f"{report} has no such chart; see its titles in a browser")
    # The same page with the chart alone. The policy of a page allows its script, whatever its data are.
    alone = [{"heading": "", "parts": [{"charts": charts[:1]}]}]
    alone = json.dumps({"title": "", "about": "", "notes": [], "sections": alone}).replace("<", "\\u003c")
    size = (800, 720) if is_radar(charts[0]) else (400, 420)
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "chart.html"
        file.write_text(text[:found.start(2)] + alone + text[found.end(2):])
        shoot(file.as_uri(), size, to.resolve())


def is_radar(chart):
    return chart["look"] == "radar"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=pathlib.Path, metavar="RUN", nargs="?")
    parser.add_argument("--radar", type=pathlib.Path, metavar="REPORT")
    parser.add_argument("--chart", nargs=3, metavar=("TITLE", "PAGE", "PNG"))
    parser.add_argument("--game", metavar="FILE:ROW")
    parser.add_argument("--spag", type=pathlib.Path, default=None)
    args = parser.parse_args()
    if args.chart:
        title, report, to = args.chart
        return chart(pathlib.Path(report), lambda one: one["title"] == title, pathlib.Path(to))
    if args.run is None:
        parser.error("name a finished run, or --chart TITLE PAGE PNG")
    page(args.run, args.spag or program(), args.game)
    chart(args.radar or args.run / "report.html", is_radar, ROOT / "docs/radar.png")


if __name__ == "__main__":
    main()
