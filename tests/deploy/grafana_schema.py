"""Checks a dashboard against Grafana's own models, those of the package grafana-foundation-sdk."""
import enum
import json
import types
import typing

from grafana_foundation_sdk.cog import encoder, plugins
from grafana_foundation_sdk.models import dashboard as models
from grafana_foundation_sdk.models import units

plugins.register_default_plugins()

# Members that Grafana reads and writes but its models lack.
UNITS = {value for value in vars(units).values() if isinstance(value, str)}
KNOWN = {"definition": "the query of a variable as a text, which its editor shows"}


def _lost(before, after, path):
    """Members of `before` that are not in `after`, or are another value there."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key, value in before.items():
            if key in KNOWN:
                continue
            if key not in after:
                if value is not None:
                    yield f"{path}.{key}: Grafana has no such member"
            else:
                yield from _lost(value, after[key], f"{path}.{key}")
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for i, (one, other) in enumerate(zip(before, after, strict=True)):
            yield from _lost(one, other, f"{path}[{i}]")
    elif before != after:
        yield f"{path}: {before!r} is read as {after!r}"


def _hints(cls):
    return typing.get_type_hints(cls)


def _wrong(value, kind, path):  # noqa: PLR0911
    """Where a value is not of the type that a model declares."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if kind in (typing.Any, object):
        if hasattr(value, "to_json"):
            yield from _members(value, path)
        return
    if origin in (typing.Union, types.UnionType):
        each = [list(_wrong(value, one, path)) for one in inner]
        if all(each):
            yield from min(each, key=len)
    elif origin is typing.Literal:
        if value not in inner:
            yield f"{path}: {value!r} is none of {inner}"
    elif origin is list:
        if not isinstance(value, list):
            yield f"{path}: {value!r} is no list"
        else:
            for i, item in enumerate(value):
                yield from _wrong(item, inner[0], f"{path}[{i}]")
    elif origin is dict:
        if not isinstance(value, dict):
            yield f"{path}: {value!r} is no object"
        else:
            for key, item in value.items():
                yield from _wrong(item, inner[1], f"{path}.{key}")
    elif kind is type(None):
        if value is not None:
            yield f"{path}: {value!r} is not null"
    elif issubclass(kind, enum.Enum):
        if value not in {item.value for item in kind}:
            yield f"{path}: {value!r} is none of {sorted(str(item.value) for item in kind)}"
    elif kind is float:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            yield f"{path}: {value!r} is no number"
    elif kind in (str, int, bool):
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            yield f"{path}: {value!r} is no {kind.__name__}"
    elif isinstance(value, kind):
        yield from _members(value, path)
    elif isinstance(value, dict):  # a list that from_json leaves as it is
        try:
            yield from _members(kind.from_json(value), path)
            yield from _lost(value, json.loads(json.dumps(kind.from_json(value), cls=encoder.JSONEncoder)), path)
        except (AttributeError, TypeError, KeyError) as error:
            yield f"{path}: {error!r}"
    else:
        yield f"{path}: {value!r} is no {kind.__name__}"


def _members(value, path):
    for name, kind in _hints(type(value)).items():
        if hasattr(value, name):
            yield from _wrong(getattr(value, name), kind, f"{path}.{name}")


def _units(value, path):
    if isinstance(value, dict):
        unit = value.get("unit") or (value.get("value") if value.get("id") == "unit" else None)
        if unit and unit not in UNITS and not unit.startswith(("suffix:", "prefix:")):
            yield f"{path}: {unit!r} is no unit of Grafana"
        for key, item in value.items():
            yield from _units(item, f"{path}.{key}")
    elif isinstance(value, list):
        for i, item in enumerate(value):
            yield from _units(item, f"{path}[{i}]")


def faults(dashboard):
    """What Grafana's models do not know, or have another type for, in words."""
    yield from _units(dashboard, "dashboard")
    try:
        read = models.Dashboard.from_json(dashboard)
    except (AttributeError, TypeError, KeyError) as error:
        yield f"cannot be read: {error!r}"
        return
    yield from _members(read, "dashboard")
    yield from _lost(dashboard, json.loads(json.dumps(read, cls=encoder.JSONEncoder)), "dashboard")
