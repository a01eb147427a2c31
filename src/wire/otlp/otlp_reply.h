// What a receiver answers its senders, as protobuf or as JSON. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/received_otlp.h"

namespace gpulens {

enum class OtlpEncoding : uint8_t { kProtobuf, kJson };

// "application/x-protobuf", "application/json".
std::string_view OtlpContentType(OtlpEncoding encoding) noexcept;

// An Export…ServiceResponse. With `rejected` items, or something to say, it is a partial success.
std::string OtlpSuccess(OtlpSignal signal, OtlpEncoding encoding, uint64_t rejected,
                        std::string_view message);

// A google.rpc.Status. `code` is one of gRPC's: 3 invalid argument, 8 resource exhausted, 14 unavailable.
std::string OtlpFailure(OtlpEncoding encoding, uint32_t code, std::string_view message);

}  // namespace gpulens
