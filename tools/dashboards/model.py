"""Dashboards as plain tables, and the JSON that Grafana 10 and later reads.

A board has rows, a row has panels, a panel has queries. Each query has the range of values that is plausible, which
tests/deploy/test_dashboards.py checks against a real Prometheus, or the reason why nothing answers it yet.
"""
from __future__ import annotations

import dataclasses
import functools
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SCHEMA_VERSION = 38  # of Grafana 10.0; later ones migrate it when they load it
GRID = 24  # columns
REFRESH = "30s"
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
INF = float("inf")


@dataclasses.dataclass(frozen=True)
class Query:
    """An expression, the legend of its series, and between what its values must lie."""

    expr: str
    legend: str = ""
    low: float = 0
    high: float = INF
    absent: str = ""  # why nothing answers it yet; then it must return nothing
    window: str = ""  # why it has a fixed window instead of $__rate_interval


@dataclasses.dataclass(frozen=True)
class Threshold:
    """From `value` on the panel has `color`, below the first one green; -INF: this one below. `meaning` is part of its description."""

    value: float
    color: str
    meaning: str


@dataclasses.dataclass(frozen=True)
class Column:
    """A column of a table: a query that is aggregated to the labels of the table, and how to show it."""

    name: str
    query: Query
    unit: str = "none"
    thresholds: tuple[Threshold, ...] = ()
    words: tuple[tuple[float, str], ...] = ()  # a number as a word


@dataclasses.dataclass(frozen=True)
class Panel:
    kind: str  # timeseries, stat, bargauge, table, heatmap
    title: str
    why: str  # the question that it answers
    queries: tuple[Query, ...] = ()
    unit: str = "none"
    width: int = 12
    height: int = 8
    thresholds: tuple[Threshold, ...] = ()
    top: float | None = None  # of the axis; the bottom is 0 unless `signed`
    signed: bool = False
    stack: bool = False
    text: str = ""  # stat: show the legend instead of the value
    words: tuple[tuple[float, str], ...] = ()
    columns: tuple[Column, ...] = ()  # of a table
    labels: tuple[tuple[str, str], ...] = ()  # of a table: label, heading
    links: tuple[tuple[str, str], ...] = ()  # text, address


@dataclasses.dataclass(frozen=True)
class Row:
    title: str
    panels: tuple[Panel, ...]


@dataclasses.dataclass(frozen=True)
class Variable:
    """A choice at the top of a board: of one value, or with `multi` of several. All (`every`) also matches series without the label."""

    name: str
    title: str
    query: str
    multi: bool = True
    every: bool = True  # All is offered, and the default; not where it would draw a line for each GPU of a fleet


@dataclasses.dataclass(frozen=True)
class Board:
    file: str
    uid: str
    title: str
    about: str
    names: str  # the option `names` of the sink that it needs; "": it shows no agent
    variables: tuple[Variable, ...]
    rows: tuple[Row, ...]
    answers: tuple[str, ...] = ()  # questions, for docs/dashboards.md
    tags: tuple[str, ...] = ("gpulens",)
    since: str = "now-1h"


def stat(title, why, query, unit="none", *, thresholds=(), width=4, height=4, **more):
    return Panel("stat", title, why, (query,), unit, width, height, tuple(thresholds), **more)


def lines(title, why, *queries, unit="none", width=12, **more):
    return Panel("timeseries", title, why, queries, unit, width, **more)


def bars(title, why, query, unit="none", *, width=12, **more):
    return Panel("bargauge", title, why, (query,), unit, width, **more)


def table(title, why, labels, *columns, width=GRID, **more):
    return Panel("table", title, why, tuple(c.query for c in columns), width=width, labels=tuple(labels), columns=columns, **more)


def heat(title, why, query, unit="s", *, width=12, **more):
    return Panel("heatmap", title, why, (query,), unit, width, **more)


# -- what metrics.md says of a metric


@functools.cache
def catalogue() -> dict[str, tuple[str, str]]:
    """Prometheus name → (level, meaning), of the native metrics in docs/metrics.md."""
    found = {}
    for line in (ROOT / "docs" / "metrics.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.replace("\\|", "¦").split("|")]
        if len(cells) >= 10 and cells[4] in ("essential", "standard", "all"):
            found[cells[5].strip("`")] = (cells[4], cells[8].strip())
    return found


def metrics_of(expression: str) -> list[str]:
    """The names of metrics in an expression, in order: words before a `{` or `[`, and words that are no function or label."""
    bare = re.sub(r'"(?:[^"\\]|\\.)*"', '""', expression)
    bare = re.sub(r"\b(by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)", " ", bare)
    bare = re.sub(r"\{[^}]*\}", "{}", bare)
    bare = re.sub(r"\[[^\]]*\]", "[]", bare)
    words = re.findall(r"(?<![\w$:.])([A-Za-z_:][\w:]*)\s*(\()?", bare)
    keywords = {"and", "or", "unless", "bool", "offset", "inf", "nan", "e", "by", "without"}
    return list(dict.fromkeys(word for word, call in words if not call and word.lower() not in keywords))


def level_of(name: str) -> str:
    """The level of a native metric, "" of another name."""
    for candidate in (name, *(name.removesuffix(end) for end in ("_bucket", "_sum", "_count") if name.endswith(end))):
        if candidate in catalogue():
            return catalogue()[candidate][0]
    return ""


def needs_all(board: Board, panel: Panel) -> list[str]:
    """Metrics of a panel that `metrics: standard` does not export."""
    if "native" not in board.names:
        return []  # other name sets are complete at every level
    return sorted({name for query in panel.queries for name in metrics_of(query.expr) if level_of(name) == "all"})


# -- JSON


def _description(board: Board, panel: Panel) -> str:
    def meanings(thresholds):
        return [f"{t.color.capitalize()} {'below' if t.value == -INF else f'from {t.value:g}'}: {t.meaning}." for t in thresholds]
    parts = [panel.why, *meanings(panel.thresholds)]
    for column in panel.columns:
        parts += [f"{column.name}: {text[0].lower()}{text[1:]}" for text in meanings(column.thresholds)]
    if needs_all(board, panel):
        parts.append("Needs `metrics: all`.")
    parts += sorted({f"Not there yet: {query.absent}." for query in panel.queries if query.absent})
    return " ".join(parts)


def _thresholds(thresholds):
    base = "text" if not thresholds else thresholds[0].color if thresholds[0].value == -INF else "green"
    return {"mode": "absolute", "steps": [{"color": base, "value": None}, *({"color": t.color, "value": t.value} for t in thresholds if t.value != -INF)]}


def _mappings(words):
    return [{"type": "value", "options": {f"{value:g}": {"text": text, "index": i} for i, (value, text) in enumerate(words)}}] if words else []


def _target(panel, i, query):
    instant = panel.kind in ("stat", "bargauge", "table")  # a range would show the last value of a series that ended as the present one
    target = {"refId": chr(ord("A") + i), "datasource": DATASOURCE, "expr": query.expr, "legendFormat": query.legend or "__auto", "editorMode": "code",
              "instant": instant, "range": not instant}
    if panel.kind == "table":
        target["format"] = "table"
    if panel.kind == "heatmap" and "(le" in query.expr:  # buckets; other series are a row each
        target["format"] = "heatmap"
    return target


def _defaults(panel):
    defaults = {"unit": panel.unit, "noValue": "unknown", "thresholds": _thresholds(panel.thresholds), "mappings": _mappings(panel.words)}
    if panel.links:
        defaults["links"] = [{"title": title, "url": url, "targetBlank": False} for title, url in panel.links]
    if panel.kind in ("timeseries", "bargauge") and not panel.signed:
        defaults["min"] = 0
    if panel.top is not None:
        defaults["max"] = panel.top
    if panel.kind == "timeseries":
        defaults["color"] = {"mode": "palette-classic"}
        defaults["custom"] = {"drawStyle": "line", "lineWidth": 1, "fillOpacity": 25 if panel.stack else 8, "showPoints": "auto", "pointSize": 4,
                              "spanNulls": False,  # a gap is a gap
                              "stacking": {"mode": "normal" if panel.stack else "none", "group": "A"},
                              "thresholdsStyle": {"mode": "dashed" if panel.thresholds else "off"}}
    elif panel.kind != "heatmap":
        defaults["color"] = {"mode": "thresholds"}
    return defaults


def _options(panel):
    reduce = {"values": False, "calcs": ["lastNotNull"], "fields": ""}
    if panel.kind == "timeseries":
        return {"legend": {"displayMode": "table", "placement": "bottom", "showLegend": True, "calcs": ["lastNotNull", "max"]},
                "tooltip": {"mode": "multi", "sort": "desc"}}
    if panel.kind == "stat":
        return {"reduceOptions": reduce, "orientation": "auto", "textMode": "name" if panel.text else "auto", "graphMode": "none",
                "justifyMode": "auto", "colorMode": "value" if panel.thresholds or panel.words else "none"}
    if panel.kind == "bargauge":
        return {"reduceOptions": reduce, "orientation": "horizontal", "displayMode": "basic", "showUnfilled": True, "valueMode": "color"}
    if panel.kind == "table":
        return {"showHeader": True, "cellHeight": "sm", "footer": {"show": False, "reducer": ["sum"], "countRows": False}}
    return {"calculate": False, "cellGap": 1, "color": {"mode": "scheme", "scheme": "Blues", "steps": 64, "scale": "exponential", "exponent": 0.5,
                                                        "fill": "blue", "reverse": False},
            "yAxis": {"axisPlacement": "left", "unit": panel.unit}, "legend": {"show": True}, "tooltip": {"show": True, "yHistogram": False},
            "showValue": "never", "exemplars": {"color": "rgba(255,0,255,0.7)"}}


def _columns(panel):
    """Overrides and transformations of a table: a row for each set of labels, a column for each query."""
    overrides, renamed = [], {label: heading for label, heading in panel.labels}
    for i, column in enumerate(panel.columns):
        name = f"Value #{chr(ord('A') + i)}" if len(panel.columns) > 1 else "Value"
        renamed[name] = column.name  # "Value #A" or, of one query, "Value"
        properties = [{"id": "unit", "value": column.unit}]
        if column.thresholds:
            properties += [{"id": "thresholds", "value": _thresholds(column.thresholds)}, {"id": "custom.cellOptions", "value": {"type": "color-text"}}]
        if column.words:
            properties.append({"id": "mappings", "value": _mappings(column.words)})
        overrides.append({"matcher": {"id": "byName", "options": column.name}, "properties": properties})
    order = [*(label for label, _ in panel.labels), *(name for name in renamed if name.startswith("Value"))]
    organize = {"excludeByName": {"Time": True}, "indexByName": {name: i for i, name in enumerate(order)}, "renameByName": renamed}
    steps = [{"id": "merge", "options": {}}] if len(panel.columns) > 1 else []
    return overrides, [*steps, {"id": "organize", "options": organize}]


def _panel(board, panel, number, x, y):
    out = {"id": number, "type": panel.kind, "title": panel.title, "description": _description(board, panel), "datasource": DATASOURCE,
           "gridPos": {"x": x, "y": y, "w": panel.width, "h": panel.height},
           "fieldConfig": {"defaults": _defaults(panel), "overrides": []}, "options": _options(panel),
           "targets": [_target(panel, i, query) for i, query in enumerate(panel.queries)]}
    if panel.kind == "table":
        out["fieldConfig"]["overrides"], out["transformations"] = _columns(panel)
    return out


def _variable(variable):
    out = {"type": "query", "name": variable.name, "label": variable.title, "datasource": DATASOURCE, "definition": variable.query,
           "query": {"query": variable.query, "refId": "StandardVariableQuery"}, "refresh": 2, "sort": 1, "hide": 0,
           "multi": variable.multi, "includeAll": variable.multi and variable.every, "skipUrlSync": False, "options": []}
    if out["includeAll"]:
        out |= {"allValue": ".*", "current": {"selected": True, "text": ["All"], "value": ["$__all"]}}
    return out


def placed(board: Board):
    """Yields (id, x, y, panel) of every panel and (id, 0, y, row) of every row: from left to right, then down."""
    number, y = 0, 0
    for row in board.rows:
        number += 1
        yield number, 0, y, row
        y, x, below = y + 1, 0, 0
        for panel in row.panels:
            if x + panel.width > GRID:
                x, y = 0, y + below
                below = 0
            number += 1
            yield number, x, y, panel
            x, below = x + panel.width, max(below, panel.height)
        y += below


def to_json(board: Board, boards: tuple[Board, ...]) -> dict:
    """The dashboard as Grafana reads it, with links to the others with the first of its tags."""
    panels = []
    for number, x, y, item in placed(board):
        if isinstance(item, Row):
            panels.append({"id": number, "type": "row", "title": item.title, "collapsed": False, "gridPos": {"x": 0, "y": y, "w": GRID, "h": 1}, "panels": []})
        else:
            panels.append(_panel(board, item, number, x, y))
    links = [{"type": "dashboards", "title": "gpulens", "tags": [board.tags[0]], "asDropdown": True, "includeVars": True, "keepTime": True,
              "targetBlank": False, "icon": "external link", "tooltip": "", "url": ""}] if len(boards) > 1 else []
    datasource = {"type": "datasource", "name": "datasource", "label": "Data source", "query": "prometheus", "hide": 0, "refresh": 1, "multi": False,
                  "includeAll": False, "regex": "", "skipUrlSync": False, "options": []}
    return {"uid": board.uid, "title": board.title, "description": board.about, "tags": list(board.tags), "schemaVersion": SCHEMA_VERSION, "version": 1,
            "editable": True, "graphTooltip": 1, "refresh": REFRESH, "timezone": "browser", "style": "dark",
            "time": {"from": board.since, "to": "now"}, "timepicker": {}, "annotations": {"list": []}, "links": links,
            "templating": {"list": [datasource, *map(_variable, board.variables)]}, "panels": panels}
