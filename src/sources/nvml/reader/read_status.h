// What a return code of the library means for a reading.
#pragma once

#include "sources/nvml/nvml_fields.h"
#include "sources/nvml/reader/nvml_abi.h"

namespace gpulens::nvml {

constexpr ReadStatus ReadStatusOf(int code) noexcept {
  switch (code) {
    case kSuccess: return ReadStatus::kOk;
    case kInvalidArgument:  // An id or enum value that this driver does not know yet.
    case kNotSupported:
    case kFunctionNotFound:
    case kArgumentVersionMismatch:
    case kDeprecated: return ReadStatus::kNotSupported;
    case kNoPermission: return ReadStatus::kNoPermission;
    case kNotFound: return ReadStatus::kNotFound;
    case kGpuIsLost:
    case kGpuNotFound: return ReadStatus::kLost;
    case nvml::kResetRequired: return ReadStatus::kResetRequired;
    default: return ReadStatus::kError;
  }
}

}  // namespace gpulens::nvml
