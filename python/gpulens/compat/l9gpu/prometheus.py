"""Pages in Prometheus' text format, and quantiles of their histograms."""
from typing import Dict, List, Optional, Tuple

from ..._core import bucket_quantile as _bucket_quantile
from ..._core import read_samples as _read_samples
from .._pages import fetch as _fetch

__all__ = ["histogram_quantile", "parse", "scrape"]

Labels = Dict[str, str]
Sample = Tuple[Labels, float]
MetricSamples = Dict[str, List[Sample]]


def scrape(url: str, timeout: float = 10) -> MetricSamples:
    """Fetches a page and returns its samples, as parse() does.

    timeout: seconds for the whole page.

    Raises OSError (urllib.error.HTTPError for an error status), http.client.HTTPException, ValueError for
    a URL that is not http or https, and ExhaustedError above 64 MiB.
    """
    return _read_samples(_fetch(url, timeout)[0])


def parse(text: str) -> MetricSamples:
    """Returns the samples of a page: (labels, value) of each, by its name, such as "x_bucket". Lines that
    cannot be understood are left out.

    Raises ExhaustedError above 64 MiB.
    """
    return _read_samples(text.encode("utf-8"))


def histogram_quantile(buckets: List[Tuple[float, float]], count: float, quantile: float) -> Optional[float]:
    """Returns the value below which this fraction of the observations lies, as Prometheus'
    histogram_quantile() does.

    buckets: pairs of an upper bound and the number of observations at or below it, in any order; +Inf may
        be included.
    count: number of all observations.
    quantile: 0 to 1.

    Returns None without observations or without a finite bound.
    """
    return _bucket_quantile(list(buckets), count, quantile)
