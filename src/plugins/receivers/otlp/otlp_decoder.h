// OTLP over HTTP before it is plain protobuf: packed, or JSON.
#pragma once

#include <cstdint>
#include <string>

#include "ingest/otlp_intake.h"
#include "wire/otlp/otlp_answer.h"

namespace gpulens {

enum class OtlpPacking : uint8_t { kPlain, kGzip, kZstd };

class OtlpDecoder final : public IntakeDecoder {
 public:
  // OtlpCall::format.
  static constexpr uint32_t Format(OtlpEncoding encoding, OtlpPacking packing) noexcept {
    return static_cast<uint32_t>(encoding) << 8 | static_cast<uint32_t>(packing);
  }

  Status Decode(const OtlpCall& call, size_t most, Decoded& out) override;

 private:
  std::string unpacked_, transcoded_;
};

}  // namespace gpulens
