// What a vLLM server's page of metrics says of its latencies, its cache and its queue. Pure: the page is
// fetched elsewhere.
//
// A server with several engines or models has a series for each. Their buckets are added before a quantile is
// taken, and their queues are; the share of the cache is the mean. Quantiles are of all requests since the
// server began.
#pragma once

#include <string_view>

#include <gpulens/status.h>

namespace gpulens {

// NaN: the page does not tell.
struct VllmReading {
  double ttft_p50_seconds = kNotMeasured, ttft_p95_seconds = kNotMeasured, ttft_p99_seconds = kNotMeasured;
  double e2e_p50_seconds = kNotMeasured, e2e_p95_seconds = kNotMeasured;
  double cache_usage_ratio = kNotMeasured;
  double requests_waiting = kNotMeasured;
};

// `content_type` as the server sent it. kDataLoss: the page is no exposition (HTML, JSON); kExhausted: it is
// larger than 64 MiB. A page without any of these families is a success that tells nothing.
Result<VllmReading> ReadVllmPage(std::string_view page, std::string_view content_type);

}  // namespace gpulens
