// Bodies of the journal's records. Around each is a head of delivery/segment_file.h, with length, number and
// checksums.
//
//   body     = kind:8 version:8 request_id[16] members
//   member   = number (zigzag, LEB128) | text (length, bytes) | flag:8 value | usage (mask, numbers, bits)
//
// Members are those of ForEachChargeField in their order, then the attempts. Each value has one encoding, and
// others are refused, so decoding and encoding gives the same bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <gpulens/status.h>

#include "store/charges/charge_record.h"

namespace gpulens {

enum class JournalKind : uint8_t {
  kBegin = 1,     // a request is about to be dispatched
  kProgress = 2,  // counts so far
  kSettle = 3,    // the whole row
};

// Counts of a request under way, and what they cost. Members are those of ChargeRecord.
struct ChargeProgress {
  RequestId id{};
  std::optional<int64_t> ttft_ns;
  std::string model_answered, tier;
  CountedBy counted_by = CountedBy::kPartial;
  LlmUsage usage;
  int64_t list_pico = 0, charged_pico = 0;
  std::string price_version;
  int64_t price_row = -1;
  int64_t events = 0, answer_bytes = 0;

  bool operator==(const ChargeProgress&) const = default;
};

struct JournalEntry {
  JournalKind kind = JournalKind::kBegin;
  ChargeRecord record;      // of kBegin and kSettle
  ChargeProgress progress;  // of kProgress
};

// Limits of texts and lists are those of Clean, which was called before. `kind`: kBegin or kSettle.
std::string EncodeEntry(JournalKind kind, const ChargeRecord& record);
std::string EncodeEntry(const ChargeProgress& progress);
// kDataLoss: not such a body. kUnavailable: of a newer version.
Result<JournalEntry> DecodeEntry(std::string_view body);

// Kind and id alone; nothing for a body that is too short or has another kind or version.
struct JournalEntryHead {
  JournalKind kind;
  RequestId id;
};
std::optional<JournalEntryHead> HeadOfEntry(std::string_view body) noexcept;

}  // namespace gpulens
