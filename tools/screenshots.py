#!/usr/bin/env python3
"""Makes the pictures of README again: the page, `gpulens top` and `gpulens why` of the demo, some minutes after its start.

    tools/screenshots.py [PROGRAM]       → docs/pictures: what ./dev screenshots runs

Pictures of the terminal are SVG, made of what tmux shows. labels.json has the names of what is to be seen; tests/page/test_pictures.py
fails when the program shows others.
"""
import html
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

import demo_views
from demo_views import COLUMNS, PICTURES, ROOT, ROWS, Demo

SETTLE_S, AFTER_S = 270, 35  # a window of five minutes, with the fault near its end
MOST_BYTES = 600_000
# The terminal's 16 colours on a dark ground; 4.5:1 or more.
COLOURS = ["#8b93a1", "#ff8a80", "#57d18c", "#f0b429", "#6cb6ff", "#ef8fcf", "#56d4dd", "#d8dee6"]
GROUND, INK = "#101317", "#d8dee6"
WIDE, HIGH = 7.83, 17


def runs_of(line):
    """[(text, style)] of a line with SGR escapes."""
    style, runs = {}, []
    for part in re.split(r"(\x1b\[[0-9;]*m)", line):
        if not part.startswith("\x1b["):
            if part:
                runs.append((part, dict(style)))
            continue
        codes = [int(code or 0) for code in part[2:-1].split(";")]
        for code in codes:
            if code == 0:
                style = {}
            elif code in (1, 2, 7):
                style[{1: "bold", 2: "dim", 7: "reverse"}[code]] = True
            elif code in (22, 27):
                for name in ("bold", "dim") if code == 22 else ("reverse",):
                    style.pop(name, None)
            elif 30 <= code <= 37 or 90 <= code <= 97:
                style["colour"] = COLOURS[code % 10]
            elif code == 39:
                style.pop("colour", None)
    return runs


def svg(lines, title):
    width, height = COLUMNS * WIDE + 24, len(lines) * HIGH + 24
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}" role="img">',
           f"<title>{html.escape(title)}</title>",
           "<style>text{font:13px ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace;white-space:pre}</style>",
           f'<rect width="100%" height="100%" rx="6" fill="{GROUND}"/>']  # fmt: skip
    for number, line in enumerate(lines):
        column, y = 0, 12 + number * HIGH + 13
        for text, style in runs_of(line):
            begin = column
            column += len(text)
            if not text.strip() and "reverse" not in style:
                continue
            x, long = 12 + begin * WIDE, len(text) * WIDE
            fill = style.get("colour", INK)
            if "reverse" in style:
                out.append(f'<rect x="{x:.1f}" y="{y - 13}" width="{long:.1f}" height="{HIGH}" fill="{fill}"/>')
                fill = GROUND
            extra = (' font-weight="700"' if "bold" in style else "") + (' opacity=".65"' if "dim" in style else "")
            # A length keeps columns in line in whatever font there is.
            out.append(f'<text x="{x:.1f}" y="{y}" fill="{fill}" textLength="{long:.1f}" lengthAdjust="spacingAndGlyphs"{extra} xml:space="preserve">{html.escape(text, quote=False)}</text>')
    return "\n".join([*out, "</svg>\n"])


def terminal(demo, words, keep_running):
    """Lines that tmux shows of a command, with escapes."""
    socket = str(demo.folder / f"tmux-{words[0]}")  # one each: a server that ends would take the next session with it
    tmux = ["tmux", "-S", socket, "-f", "/dev/null"]
    command = " ".join([demo.binary, *words])
    end = "" if keep_running else "; sleep 60"
    subprocess.run([*tmux, "new-session", "-d", "-x", str(COLUMNS), "-y", str(ROWS if keep_running else 70), "env", "TERM=screen", "sh", "-c", command + end],
                   env=demo.environment, cwd=demo.folder, check=True)  # fmt: skip
    try:
        time.sleep(6)
        shown = subprocess.run([*tmux, "capture-pane", "-e", "-p"], env=demo.environment, capture_output=True, text=True, check=True).stdout
    finally:
        subprocess.run([*tmux, "kill-server"], env=demo.environment, check=False)
    # The demo's folder has another name each time.
    lines = shown.replace(str(demo.folder / "agent.sock"), "/run/gpulens/gpulens.sock").rstrip().splitlines()
    return ["\x1b[36m$\x1b[0m \x1b[1mgpulens " + " ".join(words) + "\x1b[0m", *lines]


def main():
    binary = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build" / "gpulens").resolve()
    missing = demo_views.browser_missing() or ("" if shutil.which("tmux") else "tmux is not here")
    if missing or not binary.exists():
        sys.exit(f"screenshots: {missing or f'{binary} is not built'}")
    print(f"the demo runs for {(SETTLE_S + AFTER_S) // 60} minutes before it is shown", flush=True)
    with tempfile.TemporaryDirectory(prefix="gpulens-pictures-") as new, Demo(binary, SETTLE_S, AFTER_S) as demo:
        made = pathlib.Path(new)
        for scheme in ("dark", "light"):
            demo_views.look(demo, "shot", made / f"page-{scheme}.png", scheme, 1280, 940)
        for name, words, keep in (("top", ["top"], True), ("why", ["why"], False)):
            lines = terminal(demo, words, keep)
            (made / f"{name}.svg").write_text(svg(lines, f"gpulens {' '.join(words)} of the demo"), encoding="utf-8")
        (made / "labels.json").write_text(json.dumps(demo_views.labels(demo), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        size = sum(path.stat().st_size for path in made.iterdir())
        if size > MOST_BYTES:
            sys.exit(f"screenshots: {size} bytes, more than {MOST_BYTES}")
        PICTURES.mkdir(exist_ok=True)
        for path in made.iterdir():
            shutil.copyfile(path, PICTURES / path.name)
            print(f"docs/pictures/{path.name}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
