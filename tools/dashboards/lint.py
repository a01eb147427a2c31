"""What a dashboard must have, over the JSON as Grafana reads it; also for dashboards that were not generated."""
from __future__ import annotations

import re

FIXED = re.compile(r"\[(\d+[smhd])\]")
COUNTS = re.compile(r"\b(?:rate|increase|irate|delta)\(\s*([A-Za-z_:][\w:]*)")
GAUGE_OF_L9GPU = ("gpu_ecc_errors", "gpu_xid_errors", "gpu_pcie_replay_count", "gpu_energy_consumption_mJ", "nim_requests_failed")
NEWER = ("histogram_avg(", "histogram_count(", "histogram_sum(", "histogram_fraction(", "histogram_stddev(", "histogram_stdvar(", "sort_by_label(",
         "sort_by_label_desc(", "mad_over_time(", "limitk(", "limit_ratio(", "info(", "double_exponential_smoothing(", "ts_of_")  # Prometheus after 2.42


def panels_of(dashboard):
    for panel in dashboard["panels"]:
        yield panel
        yield from panel.get("panels", ())


def queries_of(dashboard):
    """Yields (panel, target) of every query."""
    for panel in panels_of(dashboard):
        for target in panel.get("targets", ()):
            yield panel, target


def _overlaps(panels):
    cells = {}
    for panel in panels:
        grid = panel["gridPos"]
        if grid["x"] + grid["w"] > 24:
            yield f"{panel['title']}: wider than the page"
        for x in range(grid["x"], grid["x"] + grid["w"]):
            for y in range(grid["y"], grid["y"] + grid["h"]):
                if (x, y) in cells:
                    yield f"{panel['title']}: lies on {cells[x, y]}"
                    return
                cells[x, y] = panel["title"]


def _of_expression(where, expression, fixed):
    for window in FIXED.findall(expression):
        if not fixed:
            yield f"{where}: [{window}] instead of $__rate_interval, without a reason"
    if "$__interval]" in expression:
        yield f"{where}: $__interval is shorter than two scrapes when zoomed in: $__rate_interval"
    for name in COUNTS.findall(expression):
        if not name.endswith(("_total", "_bucket", "_sum", "_count")) and name not in GAUGE_OF_L9GPU:
            yield f"{where}: {name} is no counter"
    if re.search(r"\bor\s+vector\(", expression):
        yield f"{where}: `or vector()` shows a number where nothing is known"
    if re.search(r"\b(sum|avg)\b[^(]*\([^()]*\{[^}]*\bquantile=", expression):
        yield f"{where}: quantiles cannot be added or averaged"
    if "histogram_quantile" in expression and not re.search(r"histogram_quantile\([^,]+, sum( by|\()", expression):
        yield f"{where}: histogram_quantile over buckets that are not summed by le"
    for groups, metric, where_of in re.findall(r"sum by \(([^)]*)\) \((?:rate|increase)\((inference_\w+_bucket)\{([^}]*)\}", expression):
        if "inference_engine" not in groups and "target" not in groups and 'target="' not in where_of:
            yield f"{where}: buckets of different engines in one sum: {metric}"
    for word in NEWER:
        if re.search(rf"(?<![\w]){re.escape(word)}", expression):
            yield f"{where}: {word}) is newer than Prometheus 2.42"
    for matcher in re.findall(r'(\w+)\s*(=|=~)\s*"\$(\w+)"', expression):
        if matcher[1] == "=" and matcher[2] == "cluster":
            yield f"{where}: {matcher[0]}=\"$cluster\" cannot be All"


def findings(dashboard, fixed_windows=frozenset()):
    """What is wrong with a dashboard, in words. `fixed_windows` has (panel id, refId) of queries with a reason for theirs."""
    for key in ("uid", "title", "description", "tags", "schemaVersion", "version", "refresh", "time"):
        if not dashboard.get(key):
            yield f"no {key}"
    if not re.fullmatch(r"[a-z0-9-]{8,40}", dashboard.get("uid", "")):
        yield f"uid {dashboard.get('uid')!r}: 8 to 40 of a-z, 0-9 and -"
    variables = {variable["name"]: variable for variable in dashboard["templating"]["list"]}
    if variables.get("datasource", {}).get("type") != "datasource":
        yield "no variable for the data source"
    panels = list(panels_of(dashboard))
    if len({panel["id"] for panel in panels}) != len(panels):
        yield "two panels have one id"
    yield from _overlaps([panel for panel in panels])
    used = set()
    for panel in panels:
        if panel["type"] == "row":
            continue
        title = panel["title"]
        if not panel.get("description"):
            yield f"{title}: no description"
        if panel.get("datasource", {}).get("uid") != "${datasource}":
            yield f"{title}: not the variable of the data source"
        defaults = panel["fieldConfig"]["defaults"]
        if not defaults.get("unit"):
            yield f"{title}: no unit"
        if not defaults.get("noValue"):
            yield f"{title}: no text for an unknown value"
        if defaults.get("custom", {}).get("spanNulls"):
            yield f"{title}: draws a line over gaps"
        if any(step["value"] is not None and f"{step['value']:g}:" not in panel["description"] for step in defaults["thresholds"]["steps"]):
            yield f"{title}: a threshold without a meaning in the description"
        references = [target["refId"] for target in panel["targets"]]
        if not references or len(set(references)) != len(references):
            yield f"{title}: no query, or two with one refId"
        for target in panel["targets"]:
            where = f"{title} {target['refId']}"
            if target.get("datasource", {}).get("uid") != "${datasource}":
                yield f"{where}: not the variable of the data source"
            if panel["type"] in ("timeseries", "bargauge", "heatmap") and not target.get("legendFormat", "").strip("_").replace("auto", ""):
                yield f"{where}: no legend"
            yield from _of_expression(where, target["expr"], (panel["id"], target["refId"]) in fixed_windows)
            used |= set(re.findall(r"\$\{?(\w+)", target["expr"]))
    used |= {name for variable in variables.values() for name in re.findall(r"\$\{?(\w+)", str(variable.get("definition", "")))}
    used -= {"__rate_interval", "__interval", "__range", "__range_s"}
    yield from (f"variable {name} does not exist" for name in used - set(variables))
    yield from (f"variable {name} is not used" for name in set(variables) - used - {"datasource", "cluster"})
