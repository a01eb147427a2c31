#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "wire/split/remote_write_splitter.h"

// The same as otlp_splitter_fuzz.cc for remote write. The first byte chooses the version and the hash, the
// second the rule.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using gpulens::RemoteWriteVersion;
  if (size < 2) return 0;
  const RemoteWriteVersion version = (data[0] & 1) != 0 ? RemoteWriteVersion::k2 : RemoteWriteVersion::k1;
  const std::string_view request(reinterpret_cast<const char*>(data) + 2, size - 2);
  gpulens::SplitRule rule;
  rule.hash = static_cast<gpulens::SplitHash>(data[0] / 2 % 3);
  rule.shards = 1 + (data[1] & 3u);
  if ((data[1] & 4) != 0) rule.by = "ten.ant";
  if ((data[1] & 8) != 0) rule.where.push_back({"zone", {"a*", "?"}});
  if ((data[1] & 16) != 0) rule.where.push_back({"ten_ant", {"b*"}, true});
  if ((data[1] & 32) != 0) rule.endpoints = {1, 2, 3};

  constexpr gpulens::SplitLimits kLimits = {.parts = 64, .bytes = 1 << 18, .messages = 10'000};
  static gpulens::RemoteWriteSplitter splitter(kLimits), counter;
  static std::vector<gpulens::SplitPart> parts, again;
  uint32_t left_out = 0, none = 0;
  const gpulens::Status status = splitter.Split(version, request, rule, parts, left_out);
  if (!status.ok()) {
    CHECK(parts.empty() && left_out == 0 && !status.detail.empty());
    return 0;
  }
  CHECK(counter.Split(version, request, {}, again, none));
  const uint64_t all = again.empty() ? 0 : again[0].items;
  uint64_t items = left_out;
  size_t bytes = 0;
  for (const gpulens::SplitPart& part : parts) {
    items += part.items;
    bytes += part.body.size();
    CHECK(counter.Split(version, part.body, rule, again, none));
    CHECK(again.size() == 1 && none == 0 && again[0].items == part.items && again[0].body == part.body);
    CHECK(again[0].value == part.value && again[0].shard == part.shard && again[0].endpoint == part.endpoint);
  }
  CHECK(items == all && bytes <= kLimits.bytes && parts.size() <= kLimits.parts);
  return 0;
}
