#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "wire/otlp/otlp_scan.h"
#include "wire/remote_write/remote_write_in.h"
#include "wire/remote_write/remote_write_request.h"

// Any bytes are refused or converted to OTLP, within bounds; the output is valid and has as many points as
// promised. The first byte selects the version and whether the rest is packed.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  constexpr size_t kMost = 1u << 18;
  std::string_view request(reinterpret_cast<const char*>(data) + 1, size - 1);
  std::string unpacked;
  if ((data[0] & 2) != 0) {
    if (!gpulens::SnappyUnpack(request, kMost, unpacked)) return 0;
    request = unpacked;
  }
  const auto version = (data[0] & 1) != 0 ? gpulens::RemoteWriteVersion::k2 : gpulens::RemoteWriteVersion::k1;
  gpulens::RemoteWriteIn in({.bytes = kMost, .series = 1000});
  gpulens::RemoteWriteOutcome outcome;
  std::string out, again;
  if (!in.Convert(request, version, out, outcome).ok()) return 0;
  CHECK(out.size() <= 4 * kMost);
  gpulens::OtlpScan scan;
  CHECK(gpulens::ScanOtlp(gpulens::OtlpSignal::kMetrics, out, nullptr, scan));
  CHECK(scan.rejected == 0 && scan.items == outcome.samples + outcome.histograms);
  uint64_t faults = 0;
  for (uint64_t count : outcome.faults) faults += count;
  CHECK(faults == outcome.refused && outcome.Text().empty() == (faults == 0));
  // What was remembered of types is the same the second time.
  CHECK(in.Convert(request, version, again, outcome).ok() && again == out);
  return 0;
}
