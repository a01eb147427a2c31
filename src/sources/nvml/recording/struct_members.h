// The members of the library's structs that a call puts out, in order. Versions and what selects are passed
// in and belong to the question. `v` has Number(integer&), Text(char*, size) and Bytes(unsigned char*, size).
#pragma once

#include "sources/nvml/reader/parts_abi.h"

namespace gpulens::nvml {

template <class V>
void Members(V& v, Utilization& s) {
  v.Number(s.gpu), v.Number(s.memory);
}
template <class V>
void Members(V& v, Memory& s) {
  v.Number(s.total), v.Number(s.free), v.Number(s.used);
}
template <class V>
void Members(V& v, MemoryV2& s) {
  v.Number(s.total), v.Number(s.reserved), v.Number(s.free), v.Number(s.used);
}
template <class V>
void Members(V& v, Bar1Memory& s) {
  v.Number(s.total), v.Number(s.free), v.Number(s.used);
}
template <class V>
void Members(V& v, TemperatureV1& s) {
  v.Number(s.temperature);
}
template <class V>
void Members(V& v, AddressingMode& s) {
  v.Number(s.value);
}
template <class V>
void Members(V& v, PciInfo& s) {
  v.Text(s.bus_id, sizeof s.bus_id), v.Text(s.bus_id_legacy, sizeof s.bus_id_legacy);
  v.Number(s.domain), v.Number(s.bus), v.Number(s.device), v.Number(s.device_id), v.Number(s.subsystem_id);
}
template <class V>
void Members(V& v, PciInfoV2& s) {
  v.Text(s.bus_id, sizeof s.bus_id);
  v.Number(s.domain), v.Number(s.bus), v.Number(s.device), v.Number(s.device_id), v.Number(s.subsystem_id);
}
template <class V>
void Members(V& v, MarginTemperature& s) {
  v.Number(s.margin);
}
template <class V>
void Members(V& v, FanSpeedInfo& s) {
  v.Number(s.speed);
}
template <class V>
void Members(V& v, FbcStats& s) {
  v.Number(s.sessions), v.Number(s.frame_rate), v.Number(s.latency);
}
template <class V>
void Members(V& v, SramEccErrorStatus& s) {
  for (unsigned long long* count :
       {&s.aggregate_parity, &s.aggregate_secded, &s.aggregate_corrected, &s.volatile_parity,
        &s.volatile_secded, &s.volatile_corrected, &s.bucket_l2, &s.bucket_sm, &s.bucket_pcie,
        &s.bucket_microcontroller, &s.bucket_other}) {
    v.Number(*count);
  }
  v.Number(s.threshold_exceeded);
}
inline constexpr unsigned kSramCounters = 11;
template <class V>
void Members(V& v, RowRemapperHistogram& s) {
  v.Number(s.max), v.Number(s.high), v.Number(s.partial), v.Number(s.low), v.Number(s.none);
}
template <class V>
void Members(V& v, FabricInfoV1& s) {
  v.Bytes(s.cluster_uuid, sizeof s.cluster_uuid), v.Number(s.status), v.Number(s.clique), v.Number(s.state);
}
template <class V>
void Members(V& v, FabricInfoV3& s) {
  v.Bytes(s.cluster_uuid, sizeof s.cluster_uuid), v.Number(s.status), v.Number(s.clique), v.Number(s.state);
  v.Number(s.health);
  if (s.version >> 24 >= 3) v.Number(s.summary);  // Version 2 ends before it.
}
template <class V>
void Members(V& v, ConfComputeState& s) {
  v.Number(s.environment), v.Number(s.feature), v.Number(s.dev_tools);
}
template <class V>
void Members(V& v, ConfComputeMemory& s) {
  v.Number(s.protected_kib), v.Number(s.unprotected_kib);
}
template <class V>
void Members(V& v, PlatformInfo& s) {
  v.Bytes(s.ib_guid, sizeof s.ib_guid), v.Bytes(s.chassis_serial, sizeof s.chassis_serial);
  v.Number(s.slot), v.Number(s.tray), v.Number(s.host), v.Number(s.peer_type), v.Number(s.module);
}
template <class V>
void Members(V& v, DeviceAttributes& s) {
  v.Number(s.multiprocessors), v.Number(s.copy_engines), v.Number(s.decoders), v.Number(s.encoders);
  v.Number(s.jpeg_engines), v.Number(s.ofa_engines), v.Number(s.gpu_slices), v.Number(s.compute_slices);
  v.Number(s.memory_mib);
}
template <class V>
void Members(V& v, GpmSupport& s) {
  v.Number(s.supported);
}
template <class V>
void Members(V& v, VgpuLicenseInfo& s) {
  v.Number(s.licensed), v.Number(s.state);
}

struct AnyVisitor {
  void Number(auto&) {}
  void Text(char*, size_t) {}
  void Bytes(unsigned char*, size_t) {}
};
template <class S>
concept HasMembers = requires(AnyVisitor v, S& s) { Members(v, s); };

}  // namespace gpulens::nvml
