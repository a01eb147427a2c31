// What is fixed about a machine and printed as text: os-release, /proc/cpuinfo. Pure functions.
//
// Failures: kDataLoss, kExhausted. An empty string means: not told. Every value has at most 64
// bytes (before escapes) and is printable: it comes from vendors and ends up in attributes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <gpulens/status.h>

namespace gpulens {

// /etc/os-release: ID, VERSION_ID, PRETTY_NAME, unquoted.
struct OsRelease {
  std::string id;
  std::string version;
  std::string name;
};
Status ParseOsRelease(std::string_view text, OsRelease& out);

// The first processor of /proc/cpuinfo. Arm cores have no model name; implementer and part identify
// them ("0x41", "0xd4f").
struct CpuInfo {
  std::string vendor;
  std::string model;
  std::string implementer;
  std::string part;
  bool under_hypervisor = false;  // The flag that x86 hypervisors set; no statement elsewhere.
};
Status ParseCpuInfo(std::string_view text, CpuInfo& out);

// Trimmed, cut at 64 bytes, control bytes escaped.
std::string CleanText(std::string_view text);

}  // namespace gpulens
