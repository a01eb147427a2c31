"""Reads runs: their parameters, metrics, energy and artifacts, from the file that experiment() writes.

    for run in gpulens.search_runs("my-run", status="done", metrics={"loss": (None, 0.5)}, order_by="metrics.loss"):
        print(run.id, run.params["lr"], run.metrics["loss"].last, run.energy.energy_joules)
    run = gpulens.load_run("my-run")              # the newest of this name; an ID, or a part of one
    steps, seconds, values = run.history("loss")

Nothing here writes: a run that goes on is seen as far as it is in the file. Files of the zernel project can
be read, too. Unknown numbers are NaN or None.
"""
from __future__ import annotations

import os
from array import array
from dataclasses import dataclass
from typing import Any, Dict, List, Literal, Mapping, NamedTuple, Optional, Tuple, Union

from . import _core
from ._core import ExperimentEnergy

__all__ = ["MetricHistory", "Run", "RunArtifact", "RunMetric", "load_run", "search_runs"]

Path = Union[str, "os.PathLike[str]"]


class RunMetric(NamedTuple):
    """Summary of a metric of a run."""

    last: float
    """Value at the last step; NaN when it was NaN."""
    last_step: Optional[int]
    min: float
    """Least value, apart from NaN; max likewise."""
    max: float
    count: Optional[int]
    """Number of points; None: unknown, in files of the zernel project."""
    nan_count: int


class RunArtifact(NamedTuple):
    """A file that a run has stored."""

    name: str
    path: str
    """Path of the bytes: of the copy, or of the original when it was too large to be copied."""
    bytes: int
    sha256: str
    """SHA-256 in hexadecimal; "" for a file that was too large to be read."""
    copied: bool


class MetricHistory(NamedTuple):
    """All points of a metric, by step, as arrays of equal length, which numpy.asarray() takes without a copy."""

    steps: array[int]
    seconds: array[float]
    """Unix seconds."""
    values: array[float]


@dataclass(frozen=True)
class Run:
    """A run as it was in the file when it was read; a plain value.

    id, name: as experiment() gave them.
    status: "running", "done", "failed", or "crashed": its processes ended without ending it.
    reason: why it failed.
    parent_id: ID of the run that contains it; None: none.
    started, ended: Unix seconds; ended is None while it runs, and of a crashed run its last sign of life.
    duration_seconds: up to its end, else up to now; NaN: unknown.
    exit_code: of the program that `gpulens run` started; None: unknown.
    resumed: how often it was resumed.
    dropped: number of records that were logged and lost.
    params: bool, int, float or str by key.
    metrics: a RunMetric by key; history() returns the points.
    db: path of the file.
    """

    id: str
    name: str
    status: str
    reason: str
    parent_id: Optional[str]
    started: float
    ended: Optional[float]
    duration_seconds: float
    script: str
    command: str
    folder: str
    host: str
    git_commit: str
    exit_code: Optional[int]
    resumed: int
    dropped: int
    energy: ExperimentEnergy
    params: Dict[str, Union[bool, int, float, str]]
    tags: Dict[str, str]
    metrics: Dict[str, RunMetric]
    artifacts: List[RunArtifact]
    db: str

    def history(self, key: str) -> MetricHistory:
        """Reads the points of a metric; none for a metric that was not logged. Raises a class of
        gpulens.errors when the file cannot be read."""
        steps, seconds, values = array("q"), array("d"), array("d")
        for column, data in zip((steps, seconds, values), _core.run_points(self.db, self.id, key)):
            column.frombytes(data)
        return MetricHistory(steps, seconds, values)

    def __repr__(self) -> str:
        return f"<Run {self.id} {self.name!r} {self.status}>"


def _run(fields: Dict[str, Any], db: str) -> Run:
    fields["metrics"] = {key: RunMetric(*row) for key, row in fields["metrics"].items()}
    fields["artifacts"] = [RunArtifact(*row) for row in fields["artifacts"]]
    return Run(**fields, db=db)


def _file(db: Optional[Path]) -> str:
    return _core.experiments_file(os.fspath(db) if db is not None else "")


def search_runs(
    name: Optional[str] = None,
    *,
    status: Optional[Literal["running", "done", "failed", "crashed"]] = None,
    params: Optional[Mapping[str, Any]] = None,
    tags: Optional[Mapping[str, Any]] = None,
    metrics: Optional[Mapping[str, Tuple[Optional[float], Optional[float]]]] = None,
    order_by: str = "-started",
    limit: int = 100,
    nested: bool = True,
    db: Optional[Path] = None,
) -> List[Run]:
    """Returns the runs that match all conditions, by default the newest first.

    name: exactly this name.
    params, tags: these values, exactly; tags are compared as text.
    metrics: ranges (least, most) of the last value, both included, either may be None. A run without the
        metric, or whose last value is NaN, does not match.
    order_by: "started", "ended", "duration", "name", "status", "energy_joules", "metrics.KEY" (the last
        value), "params.KEY" or "tags.KEY", ascending; with "-" before it, descending. Runs without the
        value come last.
    limit: maximum number of runs.
    nested: include runs within runs.
    db: path of the file; default $GPULENS_EXPERIMENTS_DB or ~/.gpulens/experiments.db.

    Raises UnavailableError when there is no file, InvalidArgumentError for an unknown order, and other
    classes of gpulens.errors when the file cannot be read.
    """
    path = _file(db)
    found = _core.search_runs(
        path, name or "", status or "", dict(params or {}), dict(tags or {}), dict(metrics or {}), order_by, limit, nested
    )
    return [_run(fields, path) for fields in found]


def load_run(run: str, *, db: Optional[Path] = None) -> Run:
    """Returns a run by its ID, a part of at least four characters of it, or its name: then the newest.

    Raises InvalidArgumentError when there is none, or several, and as search_runs() otherwise.
    """
    path = _file(db)
    return _run(_core.find_run(path, run), path)
