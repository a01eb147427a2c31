// Reads latencies, cache usage and queue length from a page of a vLLM server. Pure: the page is fetched
// elsewhere. Series of several engines or models are combined: buckets and queues are added, the cache usage
// is the mean. Quantiles are of all requests since the server began.
#pragma once

#include <string_view>

#include <gpulens/status.h>

namespace gpulens {

// Values of a page; NaN: not on the page.
struct VllmReading {
  double ttft_p50_seconds = kNotMeasured, ttft_p95_seconds = kNotMeasured, ttft_p99_seconds = kNotMeasured;
  double e2e_p50_seconds = kNotMeasured, e2e_p95_seconds = kNotMeasured;
  double cache_usage_ratio = kNotMeasured;
  double requests_waiting = kNotMeasured;
};

// Parses a page; `content_type` is that of the response. kDataLoss: it is not a metrics page (HTML, JSON);
// kExhausted: it is larger than 64 MiB. A page without any of these families is a success.
Result<VllmReading> ReadVllmPage(std::string_view page, std::string_view content_type);

}  // namespace gpulens
