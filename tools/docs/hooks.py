"""What mkdocs needs besides docs/: the navigation, made from docs/README.md; the pages of the SDKs' references; links that lead
out of docs/ become names of files, as the site has no sources.

Every page has its place: a page that docs/README.md does not name fails the build (--strict), and so does a link to a file
that is not there.
"""
import ast
import pathlib
import re

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(([^()\s]+)\)")
# Folders whose pages are one section each, by their index page.
FOLDERS = {"runbooks": "Runbooks", "migrate": "Moving in"}
CSS = """/* Tables of names are wide: they scroll, and their text is smaller. */
.md-grid { max-width: 76rem; }
.md-typeset table:not([class]) { font-size: .68rem; }
.md-typeset table:not([class]) code { word-break: normal; overflow-wrap: break-word; }
.md-typeset table:not([class]) td, .md-typeset table:not([class]) th { padding: .5em .8em; min-width: 4rem; }
"""
# In place of the script of this name that the plugin `offline` would load from elsewhere.
WORKER = "search/iframe-worker.js"
CPP = """# C++ SDK

The headers of `include/gpulens`: what a program links to measure itself. The guide is [SDK](../sdk.md).

<a class="md-button md-button--primary" href="cpp/index.html">Classes and functions</a>
"""


def heading(path):
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("# "):
            return line[2:].replace("`", "").strip()
    return path.stem


def readme_sections():
    """(heading, [page, …]) of each section of docs/README.md, in its order."""
    sections = []
    for line in (DOCS / "README.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            sections.append((line[3:].strip(), []))
        elif sections:
            cell = line.split("|")[1] if line.startswith("|") else line
            pages = sections[-1][1]
            for _, target in LINK.findall(cell):
                page = target.partition("#")[0]
                if page.endswith(".md") and page not in pages:
                    pages.append(page)
    return sections


def python_pages():
    """The modules of the package that users import, each with a docstring or a list of its names."""
    for path in sorted((ROOT / "python" / "gpulens").rglob("*.py")):
        parts = path.relative_to(ROOT / "python").with_suffix("").parts
        if parts[-1] == "__init__":
            parts = parts[:-1]
        if any(part.startswith("_") for part in parts):
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        if ast.get_docstring(tree):
            yield ".".join(parts)


def on_config(config):
    taken, nav = {"README.md"}, [{"gpulens": "README.md"}]
    decisions = []
    for name, pages in readme_sections():
        entries = []
        for page in pages:
            folder = page.split("/")[0] if "/" in page else ""
            if page in taken or folder in FOLDERS:
                continue
            taken.add(page)
            (decisions if folder == "adr" else entries).append({heading(DOCS / page): page})
        if name == "Reference":
            entries.append({"Python package": "reference/python.md"})
            entries.append({"C++ SDK": "reference/cpp.md"})
        if entries:
            nav.append({name: entries})
    for folder, name in FOLDERS.items():
        pages = sorted((DOCS / folder).glob("*.md"), key=lambda path: (path.name != "README.md", path.name))
        if pages:
            nav.append({name: [f"{folder}/{path.name}" if path.name == "README.md" else {heading(path): f"{folder}/{path.name}"} for path in pages]})
    nav.append({"Decisions": decisions})
    config.nav = nav
    return config


def on_files(files, config):
    modules = "\n\n".join(f"::: {name}" for name in python_pages())
    generated = {"reference/python.md": f"# Python package\n\nThe guide is [SDK](../sdk.md#python).\n\n{modules}\n",
                 "reference/cpp.md": CPP, "site.css": CSS, WORKER: (ROOT / "tools" / "docs" / "search_worker.js").read_text(encoding="utf-8")}
    for path, content in generated.items():
        files.append(File.generated(config, path, content=content))
    # Tables of numbers next to pages are no pages of the site.
    return files


def on_page_markdown(markdown, page, **_):
    here = (DOCS / page.file.src_uri).parent

    def replaced(match):
        text, target = match.groups()
        path = target.partition("#")[0]
        if not path or "://" in target or target.startswith("mailto:"):
            return match.group(0)
        found = (here / path).resolve()
        if DOCS in found.parents and not found.is_dir():
            return match.group(0)
        if not found.exists() and not page.file.src_uri.startswith("reference/"):
            raise PluginError(f"docs/{page.file.src_uri}: there is no {target}")
        if page.file.src_uri.startswith("reference/"):
            return match.group(0)
        name = found.relative_to(ROOT).as_posix()
        plain = text.strip("`")
        return f"`{name}`" if plain in (name, path, found.name) else f"{text} (`{name}` of the sources)"

    out, fenced = [], False
    for line in markdown.splitlines():
        if line.lstrip().startswith("```"):
            fenced = not fenced
        out.append(line if fenced or line.startswith("    ") else LINK.sub(replaced, line))
    return "\n".join(out)
