"""The manual pages, made of the program's own tables: `gpulens help --json` and `gpulens config schema --json`.

gpulens(1)           all commands
gpulens-COMMAND(1)   a command with those within it
gpulens.yaml(5)      every key of the configuration
"""

import json
import re
import subprocess

PLACE = "/usr/share/doc/gpulens/docs"


def roff(text):
    """A line of text; roff reads a point or quote at its beginning as an order."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("~", "\\(ti").replace("^", "\\(ha").replace("'", "\\(aq").replace("`", "\\(ga")
    text = "".join(c if c < "\x7f" else f"\\[u{ord(c):04X}]" for c in text)
    return "\\&" + text if text.startswith((".", "'")) else text


def bold(text):
    return f"\\fB{roff(text)}\\fR"


def quoted(text):
    return '"' + text.replace('"', '\\(dq') + '"'


def run(program, *words):
    environment = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "LC_ALL": "C.UTF-8"}
    return json.loads(subprocess.run([program, *words], check=True, capture_output=True, text=True, env=environment).stdout)


class Page:
    def __init__(self, name, section, title, version, date):
        group = "User Commands" if section == 1 else "File Formats"
        self.lines = [f'.TH {name.upper()} {section} "{date}" "gpulens {version}" "{group}"', ".SH NAME", f"{roff(name)} \\- {roff(title)}"]

    def section(self, title):
        self.lines.append(f".SH {quoted(title.upper())}")

    def part(self, title):
        self.lines.append(f".SS {quoted(title)}")

    def text(self, text):
        self.paragraph()
        self.lines.append(roff(text))

    def paragraph(self):
        """Headings begin one already."""
        if not self.lines[-1].startswith((".SH", ".SS")):
            self.lines.append(".PP")

    def entry(self, head, text):
        self.lines += [".TP", head, roff(text) if text else "\\&"]

    def example(self, lines):
        self.paragraph()
        self.lines += [".RS 2", ".nf", *(roff(line[2:]) or "\\&" for line in lines), ".fi", ".RE"]

    def __str__(self):
        return "\n".join(self.lines) + "\n"


def footer(page, text, titled):
    """The text after the options: blocks of examples, sentences, and "Exit: …", with headings on a page of its own."""
    block, heading = [], None

    def head(title):
        nonlocal heading
        if titled and title != heading and not (title == "Examples" and heading):
            page.section(title)
            heading = title

    def end():
        if block and block[0].startswith("  "):
            head("Examples")
            page.example(block)
        elif block and block[0].startswith("Exit:"):
            (page.section if titled else page.part)("Exit status")
            for one in " ".join(block)[5:].split(" · "):
                codes, _, meaning = one.strip().partition(" ")
                while re.match(r"[\d,+n]+ ", meaning) and codes.endswith(","):
                    more, _, meaning = meaning.partition(" ")
                    codes += " " + more
                page.entry(bold(codes), meaning) if re.match(r"[\d, ]+$", codes) else page.text(one.strip()[:1].upper() + one.strip()[1:])
        elif block:
            head("Notes")
            page.text(" ".join(line.strip() for line in block))
        block.clear()

    for line in text.split("\n"):
        if not line or (block and line.startswith("  ") != block[0].startswith("  ")) or line.startswith("Exit:"):
            end()
        if line:
            block.append(line)
    end()


def command(page, tree, within=False):
    """What a page says of a command: a page of its own, or a part of one."""
    heading = page.part if within else page.section
    if within:
        page.part(tree["name"])
        page.text(tree["description"])
        page.text(tree["usage"])
    else:
        page.section("Synopsis")
        page.lines.append(roff(tree["usage"]))
        page.section("Description")
        page.text(tree["description"])
    if tree["commands"]:
        if not within:
            heading("Commands")
        for one in tree["commands"]:
            page.entry(bold(one["name"].split()[-1]), one["description"])
    if tree["arguments"] and any(one["help"] for one in tree["arguments"]):
        if not within:
            heading("Arguments")
        for one in tree["arguments"]:
            page.entry(f"\\fI{roff(one['value'])}\\fR", one["help"])
    group = None
    for one in tree["options"]:
        if within and one["names"] == ["-h", "--help"]:
            continue
        if not within and one["group"] != group:
            group = one["group"]
            heading(group)
        value = f" \\fI{roff(one['value'])}\\fR" if one.get("value") else ""
        page.entry(", ".join(map(bold, one["names"])) + value, one["help"])
    own = tree.get("footer", "")
    if own:
        footer(page, own, not within)
    for one in tree["commands"]:
        # Commands of one table share their footer: once is enough.
        command(page, {**one, "footer": "" if one.get("footer") == own else one.get("footer", "")}, within=True)


def command_page(tree, version, date):
    page = Page(tree["name"].replace(" ", "-"), 1, tree["description"].rstrip(".").replace("\n", " "), version, date)
    command(page, tree)
    page.section("See also")
    page.lines.append("\\fBgpulens\\fR(1), \\fBgpulens.yaml\\fR(5)")
    return str(page)


def overview(tree, version, date):
    page = Page("gpulens", 1, "GPU and LLM telemetry for one machine or a whole cluster", version, date)
    page.section("Synopsis")
    page.lines.append("\\fBgpulens\\fR \\fICOMMAND\\fR [\\fIOPTIONS\\fR]")
    page.section("Description")
    page.text("gpulens agent collects what this machine, its GPUs and the LLM engines on it report, and serves it at http://127.0.0.1:9091/metrics. "
              "The other commands look at it, measure, record and report.")  # fmt: skip
    page.example(["  gpulens agent          collect what is here, and serve it", "  gpulens agent --demo   a simulated node: GPUs, engines, owners",
                  "  gpulens doctor         what was found, what is missing and what to do"])  # fmt: skip
    groups = {}
    for one in tree["commands"]:
        groups.setdefault(one["group"], []).append(one)
    page.section("Commands")
    page.text("Each has a page of its own, such as gpulens-agent(1).")
    for group, commands in groups.items():
        page.part(group)
        for one in commands:
            page.entry(bold(one["name"].split()[-1]), one["description"])
    page.section("Options")
    for one in tree["options"]:
        page.entry(", ".join(map(bold, one["names"])), one["help"])
    page.section("Environment")
    page.entry("\\fBGPULENS_\\fIKEY\\fR", "Sets a key of the configuration, GPULENS_HTTP_LISTEN that of http.listen; it overrides the file.")
    page.entry(bold("GPULENS_CONFIG"), "The configuration file, where no option names one.")
    page.section("Files")
    page.entry("\\fI/etc/gpulens/gpulens.yaml\\fR", "The configuration of the service: gpulens.yaml(5).")
    page.entry("\\fI/var/lib/gpulens\\fR", "What the service keeps: queues of sinks, events, the ledger.")
    page.entry("\\fI/run/gpulens\\fR", "The control socket of the service.")
    page.entry(f"\\fI{roff(PLACE)}\\fR", "The documentation.")
    page.section("See also")
    page.lines.append("\\fBgpulens\\-agent\\fR(1), \\fBgpulens\\-doctor\\fR(1), \\fBgpulens\\-config\\fR(1), \\fBgpulens.yaml\\fR(5)")
    return str(page)


def keys(page, schema, properties, path):
    for key, one in properties.items():
        while "$ref" in one:
            found = schema
            for word in one["$ref"].removeprefix("#/").split("/"):
                found = found[word]
            one = {**found, **{k: v for k, v in one.items() if k != "$ref"}}
        here = f"{path}.{key}" if path else key
        inner = one.get("properties")
        if not path:
            page.part(key)
        kinds = [kind for kind in (one["type"] if isinstance(one.get("type"), list) else [one.get("type", "")]) if kind and kind != "null"]
        facts = ["one of " + ", ".join(map(str, one["enum"]))] if "enum" in one else ([] if inner else [" or ".join(kinds)] if kinds else [])
        if "default" in one:
            value = one["default"]
            facts.append("default " + (value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False)))
        text = one.get("description", "").rstrip(".")
        page.entry(bold(here), text + (". " if text and facts else "") + (("; ".join(facts))[:1].upper() + ("; ".join(facts))[1:] if facts else ""))
        if inner:
            keys(page, schema, inner, here)
        elif isinstance(one.get("items"), dict) and one["items"].get("properties"):
            keys(page, schema, one["items"]["properties"], here + "[]")
        elif isinstance(one.get("additionalProperties"), dict) and one["additionalProperties"].get("properties"):
            keys(page, schema, one["additionalProperties"]["properties"], here + ".NAME")


def configuration(schema, version, date):
    page = Page("gpulens.yaml", 5, "configuration of gpulens", version, date)
    page.section("Synopsis")
    page.lines.append("\\fI/etc/gpulens/gpulens.yaml\\fR")
    page.section("Description")
    page.text("A YAML file; without it every key has its default. Environment variables override it, and options of gpulens agent override both. "
              "After a change:")  # fmt: skip
    page.example(["  gpulens config check /etc/gpulens/gpulens.yaml && systemctl reload gpulens"])
    page.text("Below, a point divides a key from one within it, [] means each element of a list, and NAME a name of your choice.")
    page.section("Keys")
    keys(page, schema, schema["properties"], "")
    page.section("See also")
    page.lines.append(f"\\fBgpulens\\fR(1), \\fBgpulens\\-config\\fR(1), \\fI{roff(PLACE)}/configuration.md\\fR")
    return str(page)


def pages(program, version, date):
    """{"man1/gpulens.1": text} of every page."""
    root = run(program, "help", "--json")["commands"][0]
    made = {"man1/gpulens.1": overview(root, version, date)}
    made |= {f"man1/{one['name'].replace(' ', '-')}.1": command_page(one, version, date) for one in root["commands"]}
    made["man5/gpulens.yaml.5"] = configuration(run(program, "config", "schema", "--json"), version, date)
    return made
