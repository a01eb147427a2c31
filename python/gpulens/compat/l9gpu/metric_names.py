"""Metric name, unit and attributes of each record field.

    get_otel_name("gpu_util")                # "gpu.utilization"
    get_unit("cost_per_gpu_hour")            # "USD/h"
    get_data_point_attributes("itl_p95")     # {"quantile": "p95"}
"""
from typing import Dict

from ._fields import FIELDS

__all__ = [
    "FIELD_DATA_POINT_ATTRIBUTES",
    "FIELD_TO_OTEL_NAME",
    "FIELD_UNITS",
    "get_otel_name",
    "get_unit",
    "get_data_point_attributes",
]

FIELD_TO_OTEL_NAME: Dict[str, str] = {field: known[0] for field, known in FIELDS.items()}
FIELD_UNITS: Dict[str, str] = {field: known[1] for field, known in FIELDS.items()}
# Of the fields that have any.
FIELD_DATA_POINT_ATTRIBUTES: Dict[str, Dict[str, str]] = {field: known[2] for field, known in FIELDS.items() if known[2]}


def get_otel_name(field_name: str) -> str:
    """Returns the OpenTelemetry name of a field; for an unknown field, "gpu." followed by the field's
    name."""
    known = FIELDS.get(field_name)
    return known[0] if known else f"gpu.{field_name}"


def get_unit(field_name: str) -> str:
    """Returns the UCUM unit of a field; for an unknown field, "1"."""
    known = FIELDS.get(field_name)
    return known[1] if known else "1"


def get_data_point_attributes(field_name: str) -> Dict[str, str]:
    """Returns the attributes that distinguish this field from others of the same metric; empty where there
    are none.

    The dict is a copy that belongs to the caller.
    """
    known = FIELDS.get(field_name)
    return dict(known[2]) if known else {}
