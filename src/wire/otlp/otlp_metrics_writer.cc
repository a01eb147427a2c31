#include "wire/otlp/otlp_metrics_writer.h"

#include <algorithm>

namespace gpulens {

using namespace otlp;

void OtlpMetrics::Writer::BeginScope(std::string_view scope) noexcept {
  CloseScope();
  scope_ = scope;
}

void OtlpMetrics::Writer::BeginFamily(const OtlpFamily& family) noexcept {
  CloseFamily();
  family_ = &family;
}

size_t OtlpMetrics::Writer::Room(size_t bytes) const noexcept {
  const size_t points = options_.max_points - std::min<size_t>(points_, options_.max_points);
  const size_t size = resource_at_ == 0 ? 0 : request_.size();
  const size_t left = options_.max_bytes - std::min(size, options_.max_bytes);
  const size_t room = std::min(points, left / std::max<size_t>(bytes, 1));
  return points_ == 0 ? std::max<size_t>(room, 1) : room;
}

std::string& OtlpMetrics::Writer::Open() {
  if (resource_at_ == 0) {
    request_.clear();
    resource_at_ = nesting_.Open(kResourceList);
    request_ += resource_;
  }
  if (scope_at_ == 0) {
    scope_at_ = nesting_.Open(kScopeList);
    request_ += scope_;
  }
  if (metric_at_ == 0) {
    metric_at_ = nesting_.Open(kItems);
    request_ += family_->head;
    data_at_ = nesting_.Open(family_->data);
  }
  return request_;
}

void OtlpMetrics::Writer::CloseFamily() noexcept {
  if (metric_at_ == 0) return;
  request_ += family_->tail;
  nesting_.Close(data_at_);
  nesting_.Close(metric_at_);
  metric_at_ = data_at_ = 0;
}

void OtlpMetrics::Writer::CloseScope() noexcept {
  CloseFamily();
  if (scope_at_ != 0) nesting_.Close(scope_at_);
  scope_at_ = 0;
}

Status OtlpMetrics::Writer::Flush() {
  CloseScope();
  if (resource_at_ != 0) nesting_.Close(resource_at_);
  resource_at_ = 0;
  const uint32_t points = std::exchange(points_, 0);
  total_ += points;
  return points == 0 ? Ok() : take_(request_, points);
}

}  // namespace gpulens
