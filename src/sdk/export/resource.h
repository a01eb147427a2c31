// What a program is called when it tells of itself.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "core/attribute_set.h"

namespace gpulens::sdk {

// The value of an environment variable; empty when it is not set. Tests have their own.
using Environment = std::function<std::string(const char* name)>;
std::string ProcessEnvironment(const char* name);

// service.name ($OTEL_SERVICE_NAME, else what $OTEL_RESOURCE_ATTRIBUTES says, else the program's file name),
// service.instance.id, process.pid, telemetry.sdk.*, and the rest of $OTEL_RESOURCE_ATTRIBUTES. One that
// cannot be read is left out, and told once in the log.
AttributeSet ResourceOf(const Environment& environment, std::string_view program, int64_t pid,
                        std::string_view instance_id);

// Of this process; with a `service_name` it is called that, whatever the environment says.
AttributeSet ProcessResource(std::string_view service_name = {});

// A random UUID, the same for the life of the process, another one in each of its forks. Thread-safe.
std::string InstanceId();

}  // namespace gpulens::sdk
