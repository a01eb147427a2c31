// For tests: writes an ExportMetricsServiceRequest of one resource.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "wire/otlp/otlp_fields.h"

namespace gpulens::fleet_testing {

class Request {
 public:
  explicit Request(const AttributeSet& resource) {
    list_ = nesting_.Open(otlp::kResourceList);
    const size_t of = nesting_.Open(otlp::kResource);
    otlp::AppendAttributes(out_, otlp::kResourceAttributes, resource);
    nesting_.Close(of);
    scope_ = nesting_.Open(otlp::kScopeList);
  }
  Request(const Request&) = delete;
  Request& operator=(const Request&) = delete;

  // A gauge; without a value its series has ended.
  Request& Add(std::string_view name, const AttributeSet& attributes, std::optional<double> value,
               int64_t unix_ms) {
    Open(name, otlp::kGauge, unix_ms);
    if (value) otlp::AppendFixed(out_, otlp::kAsDouble, *value);
    else otlp::AppendNumber(out_, otlp::kNumberFlags, otlp::kNoRecordedValue);
    otlp::AppendAttributes(out_, otlp::kNumberAttributes, attributes);
    return Close();
  }
  Request& AddHistogram(std::string_view name, const AttributeSet& attributes, double sum, uint64_t count,
                        int64_t unix_ms) {
    Open(name, otlp::kHistogram, unix_ms);
    otlp::AppendFixed(out_, otlp::kHistogramCount, count);
    otlp::AppendFixed(out_, otlp::kHistogramSum, sum);
    otlp::AppendAttributes(out_, otlp::kHistogramAttributes, attributes);
    return Close();
  }
  // Once, at the end.
  std::string Take() {
    nesting_.Close(scope_);
    nesting_.Close(list_);
    return std::move(out_);
  }

 private:
  void Open(std::string_view name, uint32_t kind, int64_t unix_ms) {
    metric_ = nesting_.Open(otlp::kItems);
    otlp::AppendBytes(out_, otlp::kName, name);
    data_ = nesting_.Open(kind);
    point_ = nesting_.Open(otlp::kPoints);
    otlp::AppendFixed(out_, otlp::kTime, static_cast<uint64_t>(unix_ms) * 1'000'000);
  }
  Request& Close() {
    for (size_t open : {point_, data_, metric_}) nesting_.Close(open);
    return *this;
  }

  std::string out_;
  otlp::Nesting nesting_{out_};
  size_t list_ = 0, scope_ = 0, metric_ = 0, data_ = 0, point_ = 0;
};

inline AttributeSet Host(std::string_view name) { return AttributeSet({{"host.name", name}}); }

inline AttributeSet Gpu(int64_t index, std::initializer_list<AttributeSet::Attribute> more = {}) {
  const std::string uuid = "GPU-" + std::to_string(index);
  return AttributeSet(more).OverlaidOn(
      AttributeSet({{"gpu.index", index}, {"gpu.uuid", std::string_view(uuid)}}));
}

}  // namespace gpulens::fleet_testing
