// Events as OTLP logs: one ExportLogsServiceRequest in protobuf. Pure.
#pragma once

#include <string>
#include <string_view>

#include "core/frame.h"

namespace gpulens {

// Clears `out`. A record has the event's name as its event_name and, for receivers of before 2025, as the
// attribute `event.name`. Its attributes are its own over those of the thing it happened to. `version` is the
// scope's.
void EncodeOtlpLogs(const Events& events, std::string_view version, std::string& out);

}  // namespace gpulens
