// Every event there is: what may happen, with the attributes that say more. Names are born here, as those of
// metrics are.
//
// An event stands on the GPU's entity where it is known which GPU it is; else `gpu.pci.bus_id` says what the
// source said. Static storage; thread-safe.
#pragma once

#include "catalog/row.h"
#include "core/frame.h"

namespace gpulens {

struct EventDesc {
  std::string_view name, help;
  std::span<const std::string_view> keys = {};
  EventSeverity severity = EventSeverity::kInfo;  // when the event itself says nothing else
};

// The address of a GPU that no collector knows.
inline constexpr std::string_view kEventPciBusId = "gpu.pci.bus_id";
// Of an event that stands for several equal ones: their number.
inline constexpr std::string_view kEventRepeats = "event.repeats";

inline constexpr EventDesc kEventGpuXid{
    "gpu.xid", "An XID error with what its code means.",
    row::kKeys<"gpu.xid.code", "gpu.xid.sub_code", "gpu.xid.name", "gpu.xid.class", "gpu.xid.action",
               "gpu.xid.severity", "gpu.interconnect.link_index", "process.pid", "process.executable.name",
               "event.source">,
    EventSeverity::kError};
inline constexpr EventDesc kEventGpuXidClear{
    "gpu.xid.clear", "An operator cleared the XIDs so far: of one GPU or, without one, of all.",
    row::kKeys<"gpu.xid.clear.gpu", "event.source">, EventSeverity::kInfo};
inline constexpr EventDesc kEventNvswitchSxid{
    "nvswitch.sxid", "An SXid error of an NVSwitch.",
    row::kKeys<"nvswitch.id", "nvswitch.sxid.code", "nvswitch.sxid.severity", "gpu.interconnect.link_index",
               "event.source">,
    EventSeverity::kError};
inline constexpr EventDesc kEventGpuRas{
    "gpu.ras", "A RAS event of an AMD or Gaudi device.",
    row::kKeys<"gpu.ras.block", "gpu.ras.severity", "gpu.ras.count", "event.source">, EventSeverity::kError};
inline constexpr EventDesc kEventGpuEcc{
    "gpu.ecc", "New memory errors.", row::kKeys<"gpu.ecc.error_type", "gpu.ecc.memory_block", "event.source">,
    EventSeverity::kError};
inline constexpr EventDesc kEventGpuRowRemap{
    "gpu.row_remap", "A memory row was replaced, waits for a reset to be replaced, or could not be replaced.",
    row::kKeys<"gpu.ecc.error_type", "gpu.row_remap.result", "event.source">, EventSeverity::kWarning};
inline constexpr EventDesc kEventGpuPoison{"gpu.poison", "Poisoned data was consumed by the GPU.",
                                           row::kKeys<"gpu.poison.result", "event.source">,
                                           EventSeverity::kError};
inline constexpr EventDesc kEventGpuPcieAer{
    "gpu.pcie.aer", "A PCIe error report that names the GPU or the port above it.",
    row::kKeys<"gpu.pcie.aer.severity", "gpu.pcie.aer.layer", "event.source">, EventSeverity::kWarning};
inline constexpr EventDesc kEventGpuLost{"gpu.lost", "The GPU no longer answers.",
                                         row::kKeys<"gpu.lost.reason", "event.source">,
                                         EventSeverity::kFatal};
inline constexpr EventDesc kEventGpuFound{"gpu.found", "A GPU appeared or came back.",
                                          row::kKeys<"gpu.found.reason", "event.source">,
                                          EventSeverity::kInfo};
inline constexpr EventDesc kEventGpuReset{"gpu.reset", "The GPU was reset.",
                                          row::kKeys<"gpu.reset.reason", "event.source">,
                                          EventSeverity::kWarning};
inline constexpr EventDesc kEventGpuHang{"gpu.hang", "A driver call for this GPU does not return.",
                                         row::kKeys<"gpu.call", "gpu.hang.duration", "event.source">,
                                         EventSeverity::kError};
inline constexpr EventDesc kEventGpuRecoveryAction{
    "gpu.recovery_action", "The recovery action that the driver needs changed.",
    row::kKeys<"gpu.recovery.action", "event.source">, EventSeverity::kWarning};
inline constexpr EventDesc kEventGpuUnavailable{"gpu.unavailable",
                                                "The driver reports the GPU as unavailable.",
                                                row::kKeys<"event.source">, EventSeverity::kError};
inline constexpr EventDesc kEventGpuThermal{
    "gpu.thermal", "The GPU got too hot.",
    row::kKeys<"gpu.temperature.sensor", "gpu.thermal.action", "event.source">, EventSeverity::kWarning};
inline constexpr EventDesc kEventGpuPower{"gpu.power", "Trouble with the power supply of the GPU.",
                                          row::kKeys<"gpu.power.reason", "event.source">,
                                          EventSeverity::kWarning};
inline constexpr EventDesc kEventGpuInterconnectFailure{
    "gpu.interconnect.failure", "A link went down or counts fatal errors.",
    row::kKeys<"gpu.interconnect.type", "gpu.interconnect.link_index", "gpu.interconnect.error_type",
               "event.source">,
    EventSeverity::kError};
inline constexpr EventDesc kEventGpuClock{"gpu.clock", "The clock or performance state changed.",
                                          row::kKeys<"gpu.clock.type", "event.source">, EventSeverity::kInfo};
inline constexpr EventDesc kEventGpuMigChange{
    "gpu.mig.change", "MIG instances were changed.",
    row::kKeys<"gpu.mig.instance_id", "gpu.mig.profile", "gpu.mig.change", "event.source">,
    EventSeverity::kInfo};
inline constexpr EventDesc kEventGpuHealthChange{"gpu.health.change", "The health word of the GPU changed.",
                                                 row::kKeys<"gpu.health.state", "gpu.health.reason">,
                                                 EventSeverity::kWarning};
inline constexpr EventDesc kEventGpuProcessEnd{
    "gpu.process.end", "A process left the GPU, with its peak memory.",
    row::kKeys<"process.pid", "process.executable.name", "process.owner", "gpu.process.memory.peak">,
    EventSeverity::kInfo};
inline constexpr EventDesc kEventGpuDriverFault{
    "gpu.driver.fault", "A GPU driver, module or library logged a failure without a code.",
    row::kKeys<"gpu.driver.fault", "process.pid", "process.executable.name", "event.source">,
    EventSeverity::kWarning};
inline constexpr EventDesc kEventHostOomKill{
    "host.oom_kill", "The kernel killed a process because memory ran out.",
    row::kKeys<"process.pid", "process.executable.name", "host.oom.cgroup", "event.source">,
    EventSeverity::kError};
inline constexpr EventDesc kEventHostHardwareError{
    "host.hardware_error", "The host reports a hardware error.",
    row::kKeys<"host.error.type", "host.error.severity", "event.source">, EventSeverity::kError};
inline constexpr EventDesc kEventHostRdmaChange{
    "host.rdma.change", "An RDMA port went up or down.",
    row::kKeys<"host.rdma.device", "host.rdma.port", "host.rdma.state">, EventSeverity::kWarning};
inline constexpr EventDesc kEventGpulensQuality{
    "gpulens.quality", "A reading was rejected, with value and rule.",
    row::kKeys<"gpulens.metric", "gpulens.reason">, EventSeverity::kInfo};
inline constexpr EventDesc kEventGpulensDriver{"gpulens.reader", "A reader process changed state.",
                                               row::kKeys<"reader", "gpulens.change">,
                                               EventSeverity::kWarning};
inline constexpr EventDesc kEventGpulensConfig{"gpulens.config", "Configuration was reloaded or refused.",
                                               row::kKeys<"gpulens.result", "gpulens.error">,
                                               EventSeverity::kInfo};
inline constexpr EventDesc kEventGpulensSink{"gpulens.sink",
                                             "A sink lost or regained its peer, or began to drop.",
                                             row::kKeys<"sink", "gpulens.change">, EventSeverity::kWarning};
inline constexpr EventDesc kEventGpulensGovernor{
    "gpulens.governor", "A limit was reached and series were refused.",
    row::kKeys<"gpulens.limit", "gpulens.target">, EventSeverity::kWarning};

// All rows, in the order in which people should read them.
inline constexpr const EventDesc* kEvents[] = {&kEventGpuXid,
                                               &kEventGpuXidClear,
                                               &kEventNvswitchSxid,
                                               &kEventGpuRas,
                                               &kEventGpuEcc,
                                               &kEventGpuRowRemap,
                                               &kEventGpuPoison,
                                               &kEventGpuPcieAer,
                                               &kEventGpuLost,
                                               &kEventGpuFound,
                                               &kEventGpuReset,
                                               &kEventGpuHang,
                                               &kEventGpuRecoveryAction,
                                               &kEventGpuUnavailable,
                                               &kEventGpuThermal,
                                               &kEventGpuPower,
                                               &kEventGpuInterconnectFailure,
                                               &kEventGpuClock,
                                               &kEventGpuMigChange,
                                               &kEventGpuHealthChange,
                                               &kEventGpuProcessEnd,
                                               &kEventGpuDriverFault,
                                               &kEventHostOomKill,
                                               &kEventHostHardwareError,
                                               &kEventHostRdmaChange,
                                               &kEventGpulensQuality,
                                               &kEventGpulensDriver,
                                               &kEventGpulensConfig,
                                               &kEventGpulensSink,
                                               &kEventGpulensGovernor};

// The row of a name; null when there is none.
constexpr const EventDesc* FindEvent(std::string_view name) noexcept {
  for (const EventDesc* event : kEvents) {
    if (event->name == name) return event;
  }
  return nullptr;
}

// "info", "warning", "error", "fatal"; "unset". Static storage.
constexpr std::string_view EventSeverityName(EventSeverity severity) noexcept {
  switch (severity) {
    case EventSeverity::kUnset: return "unset";
    case EventSeverity::kInfo: return "info";
    case EventSeverity::kWarning: return "warning";
    case EventSeverity::kError: return "error";
    case EventSeverity::kFatal: return "fatal";
  }
  return "unset";
}

}  // namespace gpulens
