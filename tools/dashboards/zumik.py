"""The two dashboards of zumik's seed, over its names: the API's are those of `gpulens proxy`, the runtime's those of the agent."""
from model import Board, Query, Row, Threshold, Variable, lines, stat

WINDOW = "the seed has it so"
NAMES = "native, dcgm, zumik"

API = Board(
    "zumik-api.json", "zumik-api", "Zumik API (managed providers)", "Requests to the API, their latency, and what providers charged.", NAMES, (),
    answers=("How many requests are there, how slow are they, and how many fail?", "What is spent an hour?"),
    rows=(
        Row("API", (
            lines("Request rate", "HTTP requests per second, by status.", Query("sum by (status) (rate(http_requests_total[$__rate_interval]))", "{{status}}", 0, 100), unit="reqps"),
            lines("Latency", "Of the buckets of all instances.",
                  *(Query(f"histogram_quantile({q}, sum(rate(http_request_duration_ms_bucket[5m])) by (le))", f"p{q * 100:g}", 0.1, 60000, window=WINDOW) for q in (0.5, 0.95, 0.99)),
                  unit="ms"),
            lines("5xx error rate", "Share of the requests that a 5xx status answered. No requests are no share.",
                  Query('sum(rate(http_requests_total{status=~"5.."}[$__rate_interval])) / sum(rate(http_requests_total[$__rate_interval]))', "5xx", 0, 0.5),
                  unit="percentunit", top=1, thresholds=(Threshold(0.05, "red", "one request of twenty fails"),)),
            lines("Inference requests by provider", "Requests per second that were passed on.",
                  Query("sum by (provider) (rate(zumik_inference_requests_total[$__rate_interval]))", "{{provider}}", 0, 50), unit="reqps", stack=True),
            stat("Spend", "Dollars an hour, from the last hour.", Query("sum(rate(zumik_inference_charged_micros_total[1h])) * 3600 / 1000000", low=0.1, high=20, window=WINDOW), "currencyUSD", width=24,
                 links=(("LLM proxy", "/d/gpulens-proxy?${datasource:queryparam}"),)),
        )),
    ), tags=("zumik",))

C = 'cluster=~"$cluster"'

BYOC = Board(
    "zumik-byoc.json", "zumik-byoc", "BYOC runtime (GPU / KV cache)", "A customer's GPU cluster: GPUs, time to first token, KV caches, queues, replicas.", NAMES,
    (Variable("cluster", "Cluster", "label_values(zumik_byoc_replicas, cluster)"),),
    answers=("Is a customer's cluster busy, and does it keep its promised time to first token?", "Do its KV caches help?"),
    rows=(
        Row("Runtime", (
            lines("GPU utilization (DCGM)", "Mean over the GPUs of each cluster.", Query(f"avg by (cluster) (DCGM_FI_DEV_GPU_UTIL{{{C}}})", "{{cluster}}", 0, 100), unit="percent", top=100),
            lines("TTFT against SLA", "p95 of the time to first token, and the promised time.",
                  Query(f"histogram_quantile(0.95, sum by (le, cluster) (rate(sglang_time_to_first_token_seconds_bucket{{{C}}}[$__rate_interval]))) * 1000", "p95 {{cluster}}", 1, 60000),
                  Query(f"max by (cluster) (zumik_byoc_target_ttft_ms{{{C}}})", "target {{cluster}}", 500, 500), unit="ms"),
            lines("LMCache hit ratio", "Tokens found of tokens looked up.",
                  Query(f"sum by (cluster) (rate(lmcache_num_lookup_hits_total{{{C}}}[$__rate_interval])) / sum by (cluster) (rate(lmcache_num_lookup_tokens_total{{{C}}}[$__rate_interval]))",
                        "{{cluster}}", 0.1, 1), unit="percentunit", top=1),
            lines("Dynamo queue depth", "Requests that the router holds.", Query(f"sum by (cluster) (dynamo_router_queue_depth{{{C}}})", "{{cluster}}", 0, 1000)),
            lines("AIBrix replica count", "Replicas that are ready.", Query(f"sum by (cluster) (zumik_byoc_replicas{{{C}}})", "{{cluster}}", 0, 10)),
            lines("Mooncake transfer throughput", "Bytes per second, read and written.",
                  Query(f"sum by (cluster, direction) (rate(mooncake_transfer_bytes_total{{{C}}}[5m]))", "{{cluster}} {{direction}}", 1, 1e12, window=WINDOW), unit="Bps"),
        )),
    ), tags=("zumik",))

BOARDS = (API, BYOC)
