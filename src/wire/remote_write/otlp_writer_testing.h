// For tests: OTLP metrics written by protozero, message by message.
#pragma once

#include <protozero/pbf_writer.hpp>
#include <string>
#include <utility>
#include <vector>

namespace gpulens::remote_write_out_testing {

using protozero::pbf_writer;

inline std::string Wrap(uint32_t field, const std::string& message) {
  std::string out;
  pbf_writer(out).add_message(field, message);
  return out;
}
inline std::string Fixed(uint32_t field, double value) {
  std::string out;
  pbf_writer(out).add_double(field, value);
  return out;
}
inline std::string Fixed(uint32_t field, uint64_t value) {
  std::string out;
  pbf_writer(out).add_fixed64(field, value);
  return out;
}
inline std::string Varint(uint32_t field, uint64_t value) {
  std::string out;
  pbf_writer(out).add_uint64(field, value);
  return out;
}
inline std::string Text(uint32_t field, const std::string& text) {
  std::string out;
  pbf_writer(out).add_string(field, text);
  return out;
}
inline std::string Pair(uint32_t field, const std::string& key, const std::string& value) {
  return Wrap(field, Text(1, key) + Wrap(2, Text(1, value)));
}
inline std::string Pairs(uint32_t field, const std::vector<std::pair<std::string, std::string>>& pairs) {
  std::string out;
  for (const auto& [key, value] : pairs) out += Pair(field, key, value);
  return out;
}
inline constexpr uint64_t kMsNs = 1'000'000, kAt = 1'700'000'000'000 * kMsNs, kStart = kAt - 5'000 * kMsNs;

inline std::string Metric(const std::string& name, const std::string& unit, const std::string& data,
                          const std::string& help = "") {
  return Wrap(
      2, Text(1, name) + (help.empty() ? "" : Text(2, help)) + (unit.empty() ? "" : Text(3, unit)) + data);
}
inline std::string Gauge(const std::string& points) { return Wrap(5, points); }
inline std::string Sum(const std::string& points, uint64_t temporality = 2, bool monotonic = true) {
  return Wrap(7, points + Varint(2, temporality) + (monotonic ? Varint(3, 1) : ""));
}
inline std::string HistogramData(const std::string& points, uint64_t temporality = 2) {
  return Wrap(9, points + Varint(2, temporality));
}
inline std::string ExponentialData(const std::string& points, uint64_t temporality = 2) {
  return Wrap(10, points + Varint(2, temporality));
}
inline std::string NumberPoint(double value,
                               const std::vector<std::pair<std::string, std::string>>& attributes = {},
                               const std::string& more = "") {
  return Wrap(1, Pairs(7, attributes) + Fixed(2, kStart) + Fixed(3, kAt) + Fixed(4, value) + more);
}
inline std::string Doubles(uint32_t field, const std::vector<double>& values) {
  std::string out;
  pbf_writer(out).add_packed_double(field, values.begin(), values.end());
  return out;
}
inline std::string Fixeds(uint32_t field, const std::vector<uint64_t>& values) {
  std::string out;
  pbf_writer(out).add_packed_fixed64(field, values.begin(), values.end());
  return out;
}
inline std::string BucketsOf(uint32_t field, int32_t offset, const std::vector<uint64_t>& counts) {
  std::string inside;
  pbf_writer(inside).add_sint32(1, offset);
  pbf_writer(inside).add_packed_uint64(2, counts.begin(), counts.end());
  return Wrap(field, inside);
}
inline std::string RequestOf(const std::string& metrics,
                             const std::vector<std::pair<std::string, std::string>>& resource = {},
                             const std::string& scope = "") {
  return Wrap(1, Wrap(1, Pairs(1, resource)) + Wrap(2, (scope.empty() ? "" : Wrap(1, scope)) + metrics));
}

}  // namespace gpulens::remote_write_out_testing
