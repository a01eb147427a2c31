// Time of GPU kernels by name, as profiles: pprof's format and OTLP's. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/attribute_set.h"

namespace gpulens {

// Names are UTF-8.
struct KernelProfile {
  struct Kernel {
    std::string name;    // for people
    std::string symbol;  // as the compiler mangled it
    std::string device;  // "0000:1a:00.0", or an ordinal
    uint64_t count = 0, total_ns = 0;
  };
  std::vector<Kernel> kernels;
  int64_t begin_unix_ns = 0, duration_ns = 0;
};

// A message perftools.profiles.Profile, as `go tool pprof` reads it (files of it are packed by gzip). Values
// of a sample: how many kernels, and nanoseconds; its stack is the kernel and the device that ran it; label
// "device".
std::string EncodePprof(const KernelProfile& profile);

struct ProfilesAbout {
  AttributeSet resource = {};
  std::string_view scope_name = {}, scope_version = {};
  std::string_view profile_id = {};  // 16 bytes; of the two profiles the last bit differs
};

// An ExportProfilesServiceRequest of opentelemetry.proto.collector.profiles.v1development with two profiles:
// kernels by count, and time in nanoseconds.
std::string EncodeOtlpProfiles(const KernelProfile& profile, const ProfilesAbout& about);

}  // namespace gpulens
