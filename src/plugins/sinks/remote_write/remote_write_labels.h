// The labels that every series has, from what is known of this machine. Pure.
#pragma once

#include "core/attribute_set.h"
#include "wire/remote_write/remote_write_layout.h"

namespace gpulens {

// `job` and `instance` as OpenTelemetry's rules for Prometheus have them, of service.namespace, service.name
// and service.instance.id, the host's name in place of the last. Then what configuration says of this machine
// (cluster, environment …): all of the resource but what describes service, host, system, cloud and program,
// which `target_info` tells.
RemoteWriteLabels RemoteWriteLabelsOf(const AttributeSet& resource);

}  // namespace gpulens
