// Resource attributes of this program.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gpulens/status.h>

#include "core/attribute_set.h"

namespace gpulens::sdk {

// Lists in environment variables of OpenTelemetry: OTEL_RESOURCE_ATTRIBUTES, OTEL_EXPORTER_OTLP_HEADERS.
// Pure.
using KeyValues = std::vector<std::pair<std::string, std::string>>;

// "a=1, b=x%20y": as W3C baggage, with %XX undone; blanks around keys and values do not count. Empty text is
// an empty list. kInvalidArgument for an element without '=', an empty key, a broken escape, control bytes,
// and for more than 128 elements: then all of it is to be thrown away, as OpenTelemetry wants.
Result<KeyValues> ParseKeyValues(std::string_view text);

// The value of an environment variable; empty when it is not set. Tests have their own.
using Environment = std::function<std::string(const char* name)>;
std::string ProcessEnvironment(const char* name);

// service.name ($OTEL_SERVICE_NAME, else that of $OTEL_RESOURCE_ATTRIBUTES, else the program's file name),
// service.instance.id, process.pid, telemetry.sdk.*, and the rest of $OTEL_RESOURCE_ATTRIBUTES. Invalid
// entries are dropped and logged once.
AttributeSet ResourceOf(const Environment& environment, std::string_view program, int64_t pid,
                        std::string_view instance_id);

// Resource of this process; `service_name` takes precedence over the environment.
AttributeSet ProcessResource(std::string_view service_name = {});

// A random UUID, the same for the life of the process, another one in each of its forks. Thread-safe.
std::string InstanceId();

}  // namespace gpulens::sdk
