#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "wire/otlp/otlp_batch.h"
#include "wire/otlp/otlp_scan.h"
#include "wire/otlp/otlp_schema.h"

namespace {

class Everything final : public gpulens::OtlpEnricher {
 public:
  explicit Everything(bool replaces)
      : addition_(gpulens::AttributeSet({{"k8s.pod.name", "p"}, {"gpu.index", int64_t{1}}}), replaces) {}
  const gpulens::OtlpAddition* OfResource(const gpulens::OtlpIdentity&) override { return &addition_; }
  const gpulens::OtlpAddition* OfItem(const gpulens::OtlpIdentity&, const gpulens::OtlpIdentity&) override {
    return &addition_;
  }

 private:
  const gpulens::OtlpAddition addition_;
};

}  // namespace

// Any bytes are refused or written again; what is written can be read again, holds what was promised, and
// needs no second change.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const auto signal = static_cast<gpulens::OtlpSignal>(data[0] % 3);
  const std::string_view request(reinterpret_cast<const char*>(data) + 2, size - 2);
  if (const std::string_view key = gpulens::otlp::UsualPair(request); !key.empty()) {
    CHECK(gpulens::otlp::CheckMessage(gpulens::OtlpMessage::kKeyValue, request).good());
    CHECK(gpulens::KeyOf(request) == key);
  }
  const std::vector<std::string> patterns = {"go_*"};
  const gpulens::NameFilter unwanted(patterns);
  gpulens::OtlpScan scan, again;
  if (!gpulens::ScanOtlp(signal, request, &unwanted, scan)) return 0;
  Everything enricher(data[1] & 1);
  uint64_t items = 0;
  const uint32_t most = 1 + data[1] / 8u;
  gpulens::OtlpBatch batch(signal, {most, 1 << 16}, [&](std::string bytes, uint32_t of_one) {
    CHECK(gpulens::ScanOtlp(signal, bytes, &unwanted, again));
    CHECK(again.items == of_one && of_one <= most && again.rejected == 0 && again.filtered == 0);
    items += of_one;
  });
  batch.Add(scan, (data[1] & 2) ? &enricher : nullptr);
  batch.Flush();
  CHECK(items == scan.items);
  return 0;
}
