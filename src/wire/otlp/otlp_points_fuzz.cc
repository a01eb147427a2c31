// Whatever comes is taken or refused, and what is taken keeps what the header promises.
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "base/text.h"
#include "wire/otlp/otlp_points.h"

namespace {

using namespace gpulens;

class Validate final : public OtlpPointVisitor {
 public:
  void OnResource(std::span<const AttributeSet::Attribute> attributes) override {
    CheckAttributes(attributes);
  }
  std::string_view OnPoint(const OtlpMetricView& metric, const OtlpPointView& point) override {
    CHECK(!metric.name.empty() && IsUtf8(metric.name) && IsUtf8(metric.unit));
    CheckAttributes(point.attributes);
    CHECK(point.start_unix_ns >= 0 && point.unix_ns >= 0);
    if (metric.data == OtlpMetricView::Data::kGauge || metric.data == OtlpMetricView::Data::kSum) {
      CHECK(point.integer || std::isfinite(point.value));
      return {};
    }
    uint64_t sum = point.zeros;
    for (uint64_t count : point.counts) sum += count;
    CHECK(point.counts.empty() || sum == point.count);
    for (size_t i = 1; i < point.bounds.size(); ++i) CHECK(point.bounds[i] > point.bounds[i - 1]);
    CHECK(point.counts.size() <= kMostOtlpBuckets);
    return {};
  }

 private:
  static void CheckAttributes(std::span<const AttributeSet::Attribute> attributes) {
    CHECK(attributes.size() <= kMostOtlpAttributes);
    CHECK(AttributeSet(attributes).size() <= attributes.size());
    for (const auto& one : attributes) CHECK(!one.key.empty() && IsUtf8(one.key));
  }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Validate validate;
  OtlpPointsReport report;
  const Status read = ReadOtlpPoints({reinterpret_cast<const char*>(data), size}, validate, report);
  CHECK(read.ok() || read.code == Code::kDataLoss);
  CHECK((report.rejected == 0) == report.why.empty());
  return 0;
}
