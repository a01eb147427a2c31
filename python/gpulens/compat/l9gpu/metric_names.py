"""Which metric a field of a record is, in what unit, and with which attributes.

    get_otel_name("gpu_util")                # "gpu.utilization"
    get_unit("cost_per_gpu_hour")            # "USD/h"
    get_data_point_attributes("itl_p95")     # {"quantile": "p95"}
"""
from typing import Dict

from ._fields import FIELDS

__all__ = ["get_otel_name", "get_unit", "get_data_point_attributes"]


def get_otel_name(field_name: str) -> str:
    """The OpenTelemetry name of a field; of one that is not known, "gpu." and the field's own name."""
    known = FIELDS.get(field_name)
    return known[0] if known else f"gpu.{field_name}"


def get_unit(field_name: str) -> str:
    """The unit of a field in UCUM's words; of one that is not known, "1"."""
    known = FIELDS.get(field_name)
    return known[1] if known else "1"


def get_data_point_attributes(field_name: str) -> Dict[str, str]:
    """What tells this field from others of the same metric; a dict of the caller's own, empty where nothing does."""
    known = FIELDS.get(field_name)
    return dict(known[2]) if known else {}
