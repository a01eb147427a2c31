"""The store of call records, and queries of it."""
import atexit

from .. import _core
from .._core import InferenceCall, InferenceStore, InferenceSummary, StoreHealth

__all__ = ["InferenceCall", "InferenceStore", "InferenceSummary", "StoreHealth"]

atexit.register(_core._close_inference_stores)
