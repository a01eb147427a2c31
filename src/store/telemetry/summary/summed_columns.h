// The columns that Sums, their keys and their groups are made of.
#pragma once

#include <string_view>

namespace gpulens::telemetry {

inline constexpr std::string_view kSummedColumns[] = {"timestamp",
                                                      "model_id",
                                                      "engine",
                                                      "agent",
                                                      "batch_id",
                                                      "is_warmup",
                                                      "prompt_tokens",
                                                      "prompt_tokens_evaluated",
                                                      "completion_tokens",
                                                      "total_tokens",
                                                      "cached_prompt_tokens",
                                                      "latency_seconds",
                                                      "ttft",
                                                      "cost_usd",
                                                      "energy_joules",
                                                      "power_watts",
                                                      "gpu_utilization_pct",
                                                      "throughput_tok_per_sec",
                                                      "tokens_per_joule",
                                                      "energy_per_output_token_joules",
                                                      "throughput_per_watt",
                                                      "prefill_energy_joules",
                                                      "decode_energy_joules",
                                                      "mean_itl_ms",
                                                      "median_itl_ms",
                                                      "p95_itl_ms",
                                                      "outcome",
                                                      "measured"};

}  // namespace gpulens::telemetry
