// Made-up charges, for tests and measurements.
#pragma once

#include <random>
#include <string>

#include "store/charges/charge_record.h"

namespace gpulens {

inline constexpr int64_t kTestDispatchNs = 1'795'651'200'000'000'000;  // 2026-11-26T00:00:00Z

// The same for the same number; ids differ. One of three has attempts, one of five an idempotency key.
inline ChargeRecord TestCharge(uint64_t number) {
  std::mt19937_64 random(number * 7919 + 1);
  ChargeRecord record;
  record.dispatch_unix_ns = kTestDispatchNs + static_cast<int64_t>(number) * 1'000'000;
  record.settled_unix_ns = record.dispatch_unix_ns + 500'000;
  record.id = MakeRequestId(record.dispatch_unix_ns / 1'000'000, number, random());
  record.duration_ns = 500'000;
  if (number % 4 != 0) record.ttft_ns = 100'000;
  record.itl_sum_ns = 300'000;
  record.itl_count = 49;
  record.key = "key-" + std::to_string(number % 7);
  record.tenant = "tenant-" + std::to_string(number % 3);
  record.budgets = {record.key, "team-" + std::to_string(number % 2)};
  record.profile = "managed";
  record.region = "eu-1";
  record.provider = number % 2 == 0 ? "openai" : "claude";
  record.model_requested = "model-latest";
  record.model_answered = number % 5 == 0 ? "" : "model-2026";
  record.api = "openai";
  record.operation = "chat";
  record.tier = "standard";
  record.status = 200;
  record.counted_by = CountedBy::kUsage;
  record.usage[LlmClass::kInput] = static_cast<int64_t>(random() % 1000);
  record.usage[LlmClass::kInputCached] = static_cast<int64_t>(random() % 1000);
  record.usage[LlmClass::kOutput] = static_cast<int64_t>(random() % 100);
  record.usage.input_known = record.usage.output_known = true;
  record.list_pico = 1'760'000'000 + static_cast<int64_t>(random() % 1'000'000'000);
  record.charged_pico = record.list_pico - 1;
  record.reserved_pico = 5'000'000'000;
  record.price_version = "9f3a5c0012345678";
  record.price_row = 12;
  if (number % 5 == 1) {
    record.idempotency.emplace();
    for (size_t i = 0; i < 8; ++i) (*record.idempotency)[i] = static_cast<uint8_t>(number >> (8 * i));
  }
  record.upstream_request_id = "req_" + std::to_string(number);
  record.events = 50;
  record.answer_bytes = 12'000;
  if (number % 3 == 0) {
    record.retries = 1;
    record.attempts = {{"openai", "http_503", record.dispatch_unix_ns - 1000, 900, 0},
                       {"claude", "timeout", record.dispatch_unix_ns - 100, 90, 1'000'000}};
  }
  return record;
}

}  // namespace gpulens
