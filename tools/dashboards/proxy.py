"""The dashboard of `gpulens proxy`, over its own page: what is spent, how requests end, and whether every charge is written down.

`instance` is what Prometheus calls the proxy. Names such as http_requests_total belong to many programs: these are taken of proxies alone.
"""
from model import Board, Column, Query, Row, Threshold, Variable, lines, stat, table

P = 'instance=~"$proxy"'
OURS = f"and on (job, instance) gpulens_proxy_journal_up{{{P}}}"
HOUR = "the spend of an hour"
DOLLARS = "/ 1000000"
FAILED = 'result!~"ok|none|client_gone|http_4(0[04-79]|1.|2[0-8]|[3-9].)"'  # as in deploy/rules/proxy.yaml
FULL = (Threshold(0.9, "orange", "alert ProxyBudgetNearlyUsed"), Threshold(1, "red", "used up"))
ANY = (Threshold(1, "red", "at least one"),)
UP = (Threshold(float("-inf"), "red", "alert ProxyJournalFailing"), Threshold(1, "green", "it is written"))
WORDS = ((0, "fails"), (1, "works"))
TO_BYOC = ("Cluster", "/d/zumik-byoc?${datasource:queryparam}")
TO_FLEET = ("Fleet", "/d/gpulens-fleet?${datasource:queryparam}")


def rate(metric, where=""):
    return f"rate({metric}{{{P}{', ' + where if where else ''}}}[$__rate_interval])"


def quantile(q, metric, by="", low=0.0, high=60.0, legend=""):
    return Query(f"histogram_quantile({q}, sum by (le{', ' + by if by else ''}) ({rate(metric + '_bucket')}))", legend or f"p{q * 100:g}", low, high)


BOARD = Board(
    "gpulens-proxy.json", "gpulens-proxy", "gpulens / LLM proxy", "Requests to LLM providers: what they cost, how they end, and whether each charge is written down.", "",
    (Variable("proxy", "Proxy", "label_values(gpulens_proxy_journal_up, instance)"),),
    answers=("What is spent, by whom it was counted, and how much is left of each budget?", "How many requests are there, how slow are they, and who fails or refuses them?",
             "Is every charge written down and stored?"),
    rows=(
        Row("Now", (
            stat("Spend an hour", "Dollars an hour, from the last hour.",
                 Query(f"sum(rate(zumik_inference_charged_micros_total{{{P}}}[1h])) * 3600 {DOLLARS}", low=0.1, high=20, window=HOUR), "currencyUSD", links=(TO_FLEET,)),
            stat("Spend", "Dollars in the range of time.", Query(f"sum(increase(zumik_inference_charged_micros_total{{{P}}}[$__range])) {DOLLARS}", low=0.1, high=20), "currencyUSD"),
            stat("Requests", "Requests per second that ended.", Query(f"sum({rate('gpulens_proxy_settled_total')})", low=0.5, high=50), "reqps"),
            stat("Streams", "Requests that are at a provider now.", Query(f"sum(gpulens_proxy_streams{{{P}}})", high=50)),
            stat("First token, p95", "Of the requests of the interval.", quantile(0.95, "gpulens_proxy_time_to_first_token_seconds", high=10), "s"),
            stat("Fullest budget", "Spent as a share of the limit, of the budget that has least left.",
                 Query(f"max(gpulens_proxy_budget_spent_micros{{{P}}} / gpulens_proxy_budget_limit_micros{{{P}}})", low=0, high=1), "percentunit", thresholds=FULL),
            stat("Refused", "Requests per second that were not let in.", Query(f"sum({rate('gpulens_proxy_refused_total')})", low=0, high=10), "reqps"),
            stat("Failed attempts", "Share of the requests to providers that failed there or did not arrive.",
                 Query(f"sum({rate('gpulens_proxy_attempts_total', FAILED)}) / sum({rate('gpulens_proxy_attempts_total')})", low=0, high=0.5), "percentunit",
                 thresholds=(Threshold(0.2, "red", "alert ProxyProviderFailing, when it is one provider"),)),
            stat("Journal", "Whether the journal can be written, of the worst proxy.", Query(f"min(gpulens_proxy_journal_up{{{P}}})", low=1, high=1), thresholds=UP, words=WORDS),
            stat("Behind", "Records of the journal that the slowest store may not have.", Query(f"max(gpulens_proxy_store_behind{{{P}}})", low=0, high=1000)),
            stat("Unsettled", "Requests that the end before the last start has cut: each has a row with its bound.",
                 Query(f"sum(gpulens_proxy_unsettled_at_start{{{P}}})", high=0), thresholds=ANY),
            stat("Without a price", "Requests in the range of time that used something for which no price was found.",
                 Query(f'sum(increase(gpulens_proxy_unpriced_total{{{P}, profile="managed"}}[$__range]))', high=0), thresholds=ANY),
        )),
        Row("Money", (
            lines("Spend by source of the counts", "Dollars an hour. What is not counted by usage is an estimate.",
                  Query(f"sum by (counted_by) ({rate('gpulens_proxy_charged_micros_total')}) * 3600 {DOLLARS}", "{{counted_by}}", 0, 200), unit="currencyUSD", stack=True),
            lines("Charged, and at list prices", "Dollars an hour: the difference is what clients pay themselves, and own clusters.",
                  Query(f"sum({rate('zumik_inference_charged_micros_total')}) * 3600 {DOLLARS}", "charged", 1, 200),
                  Query(f"sum({rate('gpulens_proxy_list_micros_total')}) * 3600 {DOLLARS}", "list", 1, 200), unit="currencyUSD"),
            table("Budgets", "Each budget in its present window. Held is reserved by requests that run.", (("instance", "Proxy"), ("budget", "Budget")),
                  *(Column(name, Query(f"max by (instance, budget) ({expr})", high=high), unit, thresholds) for name, expr, high, unit, thresholds in (
                      ("Limit", f"gpulens_proxy_budget_limit_micros{{{P}}} {DOLLARS}", 500, "currencyUSD", ()),
                      ("Spent", f"gpulens_proxy_budget_spent_micros{{{P}}} {DOLLARS}", 20, "currencyUSD", ()),
                      ("Held", f"gpulens_proxy_budget_held_micros{{{P}}} {DOLLARS}", 1, "currencyUSD", ()),
                      ("Used", f"gpulens_proxy_budget_spent_micros{{{P}}} / gpulens_proxy_budget_limit_micros{{{P}}}", 1, "percentunit", FULL),
                      ("Refused a second", rate("gpulens_proxy_budget_refused_total"), 10, "reqps", ()),
                      ("Above the limit", f"increase(gpulens_proxy_budget_overshoot_micros_total{{{P}}}[$__range]) {DOLLARS}", 1, "currencyUSD", ())))),
        )),
        Row("Requests", (
            lines("Requests by status", "All requests of HTTP. 499: the client left.", Query(f"sum by (status) ({rate('http_requests_total')} {OURS})", "{{status}}", 0, 100), unit="reqps"),
            lines("Requests by provider", "That were passed on, by the provider of the last attempt.",
                  Query(f"sum by (provider, profile, region) ({rate('zumik_inference_requests_total')})", "{{provider}} {{profile}} {{region}}", 0, 50), unit="reqps", stack=True),
            lines("How they ended", "Of those that were charged, or could have been.", Query(f"sum by (outcome) ({rate('gpulens_proxy_settled_total')})", "{{outcome}}", 0, 50),
                  unit="reqps", stack=True, width=8),
            lines("Refusals", "Requests that the proxy did not let in, by reason.", Query(f"sum by (reason) ({rate('gpulens_proxy_refused_total')}) > 0", "{{reason}}", 0, 10), unit="reqps", width=8),
            lines("Connections", "Of clients, and requests that are at a provider.", Query(f"sum(gpulens_proxy_connections{{{P}}})", "connections", 0, 100),
                  Query(f"sum(gpulens_proxy_streams{{{P}}})", "requests", 0, 100), width=8),
        )),
        Row("Latency", (
            lines("Time to first token", "From the dispatch of a request to the first output.",
                  *(quantile(q, "gpulens_proxy_time_to_first_token_seconds", high=10) for q in (0.5, 0.95, 0.99)), unit="s", links=(TO_BYOC,)),
            lines("Time to first token, p95 by provider", "From the dispatch of a request to the first output.",
                  quantile(0.95, "gpulens_proxy_time_to_first_token_seconds", "provider", high=10, legend="{{provider}}"), unit="s"),
            lines("Time per output token, p95", "Mean time between two outputs of an answer, by provider: nineteen of twenty answers are faster.",
                  quantile(0.95, "gpulens_proxy_time_per_output_token_seconds", "provider", 0.005, 2.5, legend="{{provider}}"), unit="s"),
            lines("Whole requests", "From the head of a request to the last byte of its answer, pages of metrics included.",
                  *(Query(f"histogram_quantile({q}, sum by (le) ({rate('http_request_duration_ms_bucket')} {OURS}))", f"p{q * 100:g}", 0.1, 60000) for q in (0.5, 0.95, 0.99)), unit="ms"),
        )),
        Row("Providers", (
            lines("Attempts", "Requests to providers by how the answer began; several belong to one request where it was tried again.",
                  Query(f"sum by (provider, result) ({rate('gpulens_proxy_attempts_total')})", "{{provider}} {{result}}", 0, 50), unit="reqps", width=8),
            lines("Failed attempts by provider", "Share of the attempts; a circuit that is open counts.",
                  Query(f"sum by (provider) ({rate('gpulens_proxy_attempts_total', FAILED)}) / sum by (provider) ({rate('gpulens_proxy_attempts_total')})", "{{provider}}", 0, 0.9),
                  unit="percentunit", top=1, width=8, thresholds=(Threshold(0.2, "red", "alert ProxyProviderFailing"),)),
            lines("Used", "Tokens and other units per second, by class.", Query(f"sum by (class) ({rate('gpulens_proxy_units_total')})", "{{class}}", 0, 1e5), unit="cps", width=8),
            lines("Source of the counts", "Units per second by who counted them: usage is the provider itself.",
                  Query(f"sum by (counted_by) ({rate('gpulens_proxy_units_total')})", "{{counted_by}}", 0, 1e5), unit="cps", width=8),
            lines("Without a price", "Requests in each interval that used something for which no price was found.",
                  Query(f"sum by (provider, profile) (increase(gpulens_proxy_unpriced_total{{{P}}}[$__rate_interval]))", "{{provider}} {{profile}}", 0, 0), width=8,
                  thresholds=(Threshold(1, "red", "alert ProxyPricesUnknown, of managed providers"),)),
            lines("Contradictory counts", "Answers in each interval whose counts contradict each other.",
                  Query(f"sum by (api) (increase(gpulens_proxy_usage_inconsistent_total{{{P}}}[$__rate_interval]))", "{{api}}", 0, 0), width=8),
        )),
        Row("Journal and stores", (
            lines("Journal", "Whether it can be written: while it cannot, requests are refused, or served and counted.", Query(f"gpulens_proxy_journal_up{{{P}}}", "{{instance}}", 1, 1), top=1, width=8),
            lines("Journal on disk", "Its size, and the one from which requests are refused.", Query(f"gpulens_proxy_journal_size_bytes{{{P}}}", "{{instance}}", 0, 1e9),
                  Query(f"gpulens_proxy_journal_limit_bytes{{{P}}}", "limit {{instance}}", 2**30, 2**30), unit="bytes", width=8),
            lines("Journal's records", "Per second; failures are writes and syncs.", Query(f"sum({rate('gpulens_proxy_journal_records_total')})", "written", 0, 1000),
                  Query(f"sum({rate('gpulens_proxy_journal_failures_total')})", "failures", 0, 0), Query(f"sum({rate('gpulens_proxy_journal_refused_total')})", "requests refused", 0, 0), width=8),
            lines("Requests under way", "Begun and not charged; and records in memory, for a disk that fails.", Query(f"sum(gpulens_proxy_journal_open{{{P}}})", "open", 0, 100),
                  Query(f"sum(gpulens_proxy_journal_held{{{P}}})", "held", 0, 0), width=8),
            lines("Stores behind", "Records of the journal that a store may not have.", Query(f"gpulens_proxy_store_behind{{{P}}}", "{{instance}} {{store}}", 0, 1000), width=8),
            lines("Stores", "Charges written per second, and attempts that failed.", Query(f"sum by (store) ({rate('gpulens_proxy_store_rows_total')})", "{{store}}", 0, 100),
                  Query(f"sum by (store) ({rate('gpulens_proxy_store_failures_total')})", "{{store}} failures", 0, 0), width=8),
            lines("Lost and unsettled", "Dollars: charges that a failing disk has lost, and what requests that a crash has cut may have cost at most.",
                  Query(f"sum(gpulens_proxy_unrecorded_micros_total{{{P}}}) {DOLLARS}", "lost", 0, 0),
                  Query(f"sum(gpulens_proxy_unsettled_bound_micros{{{P}}}) {DOLLARS}", "unsettled at most", 0, 0), unit="currencyUSD", width=12),
            lines("Damage and rows set aside", "Records of the journal that could not be read at the last start, and charges that a store refused.",
                  Query(f"sum(gpulens_proxy_journal_damaged_at_start{{{P}}})", "damaged", 0, 0), Query(f"sum(gpulens_proxy_store_refused_total{{{P}}})", "set aside", 0, 0), width=12),
        )),
        Row("Telemetry", (
            lines("Metrics and spans delivered", "Per second, to the receiver of OTLP.", Query(f"sum by (signal) ({rate('gpulens_proxy_otlp_delivered_total')})", "{{signal}}", 0, 1e4), width=8),
            lines("Export requests", "Per second, by status of HTTP, or how they failed.", Query(f"sum by (code) ({rate('gpulens_proxy_otlp_requests_total')})", "{{code}}", 0, 10), unit="reqps", width=8),
            lines("Waiting", "Points and spans for the receiver, and records for the telemetry store.", Query(f"sum by (signal) (gpulens_proxy_otlp_waiting{{{P}}})", "{{signal}}", 0, 1e4),
                  Query(f"sum(gpulens_proxy_telemetry_queued{{{P}}})", "records", 0, 1e4), width=8),
            lines("Records", "Per second, in the telemetry store, and lost.", Query(f"sum({rate('gpulens_proxy_telemetry_stored_total')})", "stored", 0, 100),
                  Query(f"sum by (reason) ({rate('gpulens_proxy_telemetry_lost_total')})", "lost: {{reason}}", 0, 0), width=12),
            lines("Receivers", "Whether they took the last request: the receiver of OTLP, the telemetry store.", Query(f"gpulens_proxy_otlp_up{{{P}}}", "OTLP {{instance}}", 1, 1),
                  Query(f"gpulens_proxy_telemetry_up{{{P}}}", "store {{instance}}", 1, 1), top=1, width=12),
        )),
    ))
