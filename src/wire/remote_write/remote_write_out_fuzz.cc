#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "wire/otlp/otlp_scan.h"
#include "wire/remote_write/remote_write_in.h"
#include "wire/remote_write/remote_write_out.h"

namespace {

constexpr size_t kMost = 1u << 16, kSamples = 50;

// Whatever is handed out can be read by our own receiver, which refuses what others refuse, and is within its
// limits.
void Check(gpulens::RemoteWriteOut& out, std::string_view request) {
  using namespace gpulens;
  RemoteWriteIn in({.bytes = 64 * kMost, .series = 100'000, .carry_histograms = true});
  uint64_t samples = 0, arrived = 0, exemplars = 0;
  std::string otlp;
  RemoteWriteOutOutcome outcome;
  const Status status = out.Convert(
      request, Instant(),
      [&](std::string_view bytes, uint32_t count) {
        CHECK(bytes.size() <= kMost && count <= kSamples);
        RemoteWriteOutcome received;
        CHECK(in.Convert(bytes, out.version(), otlp, received).ok());
        CHECK(received.refused == 0);
        samples += count;
        arrived += received.samples + received.histograms;
        exemplars += received.exemplars;
        return Ok();
      },
      outcome);
  CHECK(status.ok() || status.code == Code::kDataLoss);
  CHECK(samples == arrived);
  if (!status.ok()) return;
  CHECK(samples == outcome.samples + outcome.histograms && exemplars <= outcome.exemplars);
  uint64_t faults = 0;
  for (uint64_t count : outcome.faults) faults += count;
  CHECK(faults == outcome.dropped && outcome.Text().empty() == (faults == 0));
  // What the receivers take can be read here, and each of its points is sent or counted.
  OtlpScan scan;
  if (ScanOtlp(OtlpSignal::kMetrics, request, nullptr, scan).ok() && scan.rejected == 0)
    CHECK(outcome.points + outcome.dropped >= scan.items);
}

}  // namespace

// The first byte chooses the options, the rest is a request of OTLP.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const uint8_t choice = data[0];
  const auto bit = [choice](int at) { return (choice >> at & 1) != 0; };
  using gpulens::RemoteWriteVersion;
  gpulens::RemoteWriteOut out({.version = bit(0) ? RemoteWriteVersion::k2 : RemoteWriteVersion::k1,
                               .max_samples = kSamples,
                               .max_bytes = kMost,
                               .max_total = 64 * kMost,
                               .native_histograms = bit(1),
                               .names_as_they_are = bit(2),
                               .scope_labels = bit(3),
                               .target_info = bit(4),
                               .mark_received = bit(5)});
  const std::string_view request(reinterpret_cast<const char*>(data) + 1, size - 1);
  Check(out, request);
  Check(out, request);  // its memory is used again
  return 0;
}
