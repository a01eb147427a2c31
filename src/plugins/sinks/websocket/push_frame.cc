#include "plugins/sinks/websocket/push_frame.h"

#include "catalog/gpu.h"
#include "catalog/self.h"
#include "wire/json/json_text.h"

namespace gpulens {
namespace {

// Collectors that read the processes of GPUs.
constexpr std::string_view kGpuCollector = "nvidia";
constexpr std::string_view kLatencies[] = {"cuda_latency_p50_us", "cuda_latency_p99_us",
                                           "nccl_allreduce_p50_ms", "nccl_allreduce_p99_ms",
                                           "dataloader_wait_p50_ms"};

void AppendProcess(std::string& out, const std::string& key, int64_t current, int64_t peak) {
  out += "{\"key\":\"" + key + "\",\"current_bytes\":";
  AppendJsonInt(out, current);
  out += ",\"peak_bytes\":";
  AppendJsonInt(out, peak);
  out += '}';
}

}  // namespace

PushFrame::PushFrame()
    : memory_(kGpuProcessMemoryUsed, kGpuProcessMemoryPeak), collector_up_(kSelfCollectorUp) {}

bool PushFrame::GpusAreRead(const Snapshot& snapshot) {
  bool up = false;
  collector_up_.ForEach(snapshot, [&](const SeriesInfo& info, double value, const Frame&, uint32_t) {
    up |= value == 1 && info.attributes.Text("collector") == kGpuCollector;
  });
  return up;
}

std::string PushFrame::Make(const Snapshot* snapshot) {
  std::string out = "{\"gpu_utilization\":[";
  bool any = false;
  if (snapshot) {
    for (const auto& [key, bytes] : memory_.Of(*snapshot)) {
      if (!bytes.current) continue;
      if (any) out += ',';
      any = true;
      // The peak seen so far is at least what is used now.
      AppendProcess(out, key, *bytes.current, std::max(*bytes.current, bytes.peak.value_or(0)));
    }
  }
  out += ']';
  for (std::string_view field : kLatencies) out.append(",\"").append(field).append("\":0.0");
  out += ",\"last_update_ms\":";
  AppendJsonInt(out, snapshot ? snapshot->closed_at.unix_ns / 1'000'000 : 0);
  out += ",\"valid\":{\"gpu_utilization\":";
  out += any || (snapshot && GpusAreRead(*snapshot)) ? "true" : "false";
  for (std::string_view field : kLatencies) out.append(",\"").append(field).append("\":false");
  out += ",\"last_update_ms\":";
  out += snapshot ? "true}}" : "false}}";
  return out;
}

}  // namespace gpulens
