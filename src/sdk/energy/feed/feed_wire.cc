#include "sdk/energy/feed/feed_wire.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

namespace gpulens::sdk {
namespace {

// "gpe" and the version of the format.
constexpr uint32_t kMark = 0x67'70'65'01;
constexpr uint32_t kFailure = 100, kDevices = 101, kReading = 102, kProcesses = 103;
// FeedHead::more of the devices: the reader's capabilities. The first version sends 0.
constexpr uint32_t kReportsProcesses = 1;
constexpr size_t kText = 96, kSentence = 400;
constexpr uint32_t kCodeCount = 8;  // of gpulens::Code

struct FeedHead {
  uint32_t mark = kMark, kind = 0, number = 0, more = 0;
};
struct DeviceRecord {
  std::array<char, kText> id{}, name{};
  double most_watts = 0, step_joules = 0, accuracy_ratio = 0;
  int64_t lag_ns = 0;
  uint8_t vendor = 0, part = 0, usable = 0;
  std::array<uint8_t, 5> reserved{};
};
struct ReadingRecord {
  std::array<double, 6> values{};
  int64_t began_ns = 0, ended_ns = 0, now_ns = 0;
};
struct ProcessRecord {
  double utilization_ratio = 0, memory_used_bytes = 0;
  uint8_t own = 0;
  std::array<uint8_t, 7> reserved{};
};
static_assert(sizeof(ProcessRecord) == 24);
static_assert(sizeof(FeedHead) + kMostFeedProcesses * sizeof(ProcessRecord) <= kMostFeedBytes);
static_assert(sizeof(FeedHead) == 16 && sizeof(DeviceRecord) == 232 && sizeof(ReadingRecord) == 72);
static_assert(sizeof(FeedHead) + kMostFeedDevices * sizeof(DeviceRecord) <= kMostFeedBytes);

template <class T>
void Append(std::string& out, const T& record) {
  out.append(reinterpret_cast<const char*>(&record), sizeof record);
}

template <class T>
bool Take(std::string_view& bytes, T& out) {
  if (bytes.size() < sizeof out) return false;
  std::memcpy(&out, bytes.data(), sizeof out);
  bytes.remove_prefix(sizeof out);
  return true;
}

std::array<char, kText> Text(std::string_view text) {
  std::array<char, kText> out{};
  text.copy(out.data(), out.size());
  return out;
}

std::string TextOf(const std::array<char, kText>& text) {
  return std::string(text.data(), ::strnlen(text.data(), text.size()));
}

Status None() { return {Code::kDataLoss, "not a response of an agent of this version"}; }

// Takes the head of an answer of this kind, or returns the error that the answer contains.
Status TakeHead(std::string_view& bytes, uint32_t kind, FeedHead& head) {
  if (!Take(bytes, head) || head.mark != kMark) return None();
  if (head.kind == kFailure) {
    if (head.number == 0 || head.number >= kCodeCount || bytes.size() > kSentence) return None();
    return {static_cast<Code>(head.number), std::string(bytes)};
  }
  return head.kind == kind ? Status() : None();
}

}  // namespace

std::string EncodeFeedRequest(const FeedRequest& request) {
  std::string out;
  Append(out, FeedHead{.kind = static_cast<uint32_t>(request.kind), .number = request.device});
  return out;
}

std::string EncodeFeedFailure(const Status& status) {
  std::string out;
  Append(out, FeedHead{.kind = kFailure, .number = static_cast<uint32_t>(status.code)});
  return out.append(status.detail, 0, kSentence);
}

std::string EncodeFeedDevices(std::span<const FeedDevice> devices) {
  devices = devices.first(std::min(devices.size(), kMostFeedDevices));
  std::string out;
  Append(
      out,
      FeedHead{.kind = kDevices, .number = static_cast<uint32_t>(devices.size()), .more = kReportsProcesses});
  for (const auto& [device, vendor] : devices) {
    Append(out, DeviceRecord{.id = Text(device.id),
                             .name = Text(device.name),
                             .most_watts = device.most_watts,
                             .step_joules = device.counter_step_joules,
                             .accuracy_ratio = device.accuracy_ratio,
                             .lag_ns = device.counter_lag.count(),
                             .vendor = static_cast<uint8_t>(vendor),
                             .part = static_cast<uint8_t>(device.part),
                             .usable = device.usable});
  }
  return out;
}

std::string EncodeFeedReading(const FeedReading& reading) {
  const EnergyReading& r = reading.reading;
  std::string out;
  Append(out, FeedHead{.kind = kReading});
  Append(out, ReadingRecord{{r.joules, r.watts, r.utilization_ratio, r.memory_used_bytes,
                             r.temperature_celsius, r.processes},
                            reading.began_ns,
                            reading.ended_ns,
                            reading.now_ns});
  return out;
}

std::string EncodeFeedProcesses(const EnergyProcesses& processes) {
  const size_t count = std::min(processes.list.size(), kMostFeedProcesses);
  std::string out;
  Append(out,
         FeedHead{.kind = kProcesses, .number = static_cast<uint32_t>(count), .more = processes.since_last});
  for (size_t i = 0; i < count; ++i) {
    const EnergyProcess& one = processes.list[i];
    Append(out, ProcessRecord{one.utilization_ratio, one.memory_used_bytes, one.own});
  }
  return out;
}

Result<FeedRequest> DecodeFeedRequest(std::string_view bytes) {
  FeedHead head;
  if (!Take(bytes, head) || !bytes.empty() || head.mark != kMark)
    return Status{Code::kDataLoss, "not a request of this version"};
  const auto kind = static_cast<FeedRequest::Kind>(head.kind);
  if (kind < FeedRequest::Kind::kDevices || kind > FeedRequest::Kind::kProcesses)
    return Status{Code::kInvalidArgument, "no such request"};
  return FeedRequest{kind, head.number};
}

Result<std::vector<FeedDevice>> DecodeFeedDevices(std::string_view bytes) {
  FeedHead head;
  if (Status status = TakeHead(bytes, kDevices, head); !status.ok()) return status;
  if (head.number > kMostFeedDevices || bytes.size() != head.number * sizeof(DeviceRecord)) return None();
  std::vector<FeedDevice> out(head.number);
  for (auto& [device, vendor] : out) {
    DeviceRecord record;
    Take(bytes, record);
    device.id = TextOf(record.id);
    device.name = TextOf(record.name);
    if (device.id.empty() || record.vendor > static_cast<uint8_t>(EnergyVendor::kCpuRapl) ||
        record.part > static_cast<uint8_t>(EnergyPart::kDram))
      return None();
    vendor = static_cast<EnergyVendor>(record.vendor);
    device.part = static_cast<EnergyPart>(record.part);
    device.usable = record.usable != 0;
    if (record.most_watts > 0) device.most_watts = record.most_watts;
    if (record.step_joules >= 0) device.counter_step_joules = record.step_joules;
    if (record.accuracy_ratio >= 0) device.accuracy_ratio = record.accuracy_ratio;
    device.counter_lag = Duration(std::max<int64_t>(record.lag_ns, -1));
  }
  return out;
}

Result<FeedReading> DecodeFeedReading(std::string_view bytes) {
  FeedHead head;
  if (Status status = TakeHead(bytes, kReading, head); !status.ok()) return status;
  ReadingRecord record;
  if (bytes.size() != sizeof record || !Take(bytes, record)) return None();
  if (record.began_ns <= 0 || record.began_ns > record.ended_ns || record.ended_ns > record.now_ns)
    return None();
  FeedReading out;
  EnergyReading& r = out.reading;
  double* const to[] = {
      &r.joules, &r.watts, &r.utilization_ratio, &r.memory_used_bytes, &r.temperature_celsius, &r.processes};
  for (size_t i = 0; i < record.values.size(); ++i) {
    if (std::isfinite(record.values[i])) *to[i] = record.values[i];
  }
  out.began_ns = record.began_ns;
  out.ended_ns = record.ended_ns;
  out.now_ns = record.now_ns;
  return out;
}

Result<EnergyProcesses> DecodeFeedProcesses(std::string_view bytes) {
  FeedHead head;
  if (Status status = TakeHead(bytes, kProcesses, head); !status.ok()) return status;
  if (head.number > kMostFeedProcesses || bytes.size() != head.number * sizeof(ProcessRecord)) return None();
  EnergyProcesses out{.list = std::vector<EnergyProcess>(head.number), .since_last = head.more != 0};
  for (EnergyProcess& one : out.list) {
    ProcessRecord record;
    Take(bytes, record);
    one.own = record.own != 0;
    if (record.utilization_ratio >= 0 && record.utilization_ratio <= 1)
      one.utilization_ratio = record.utilization_ratio;
    if (record.memory_used_bytes >= 0 && std::isfinite(record.memory_used_bytes))
      one.memory_used_bytes = record.memory_used_bytes;
  }
  return out;
}

bool FeedReportsProcesses(std::string_view devices) noexcept {
  FeedHead head;
  return Take(devices, head) && head.mark == kMark && head.kind == kDevices &&
         (head.more & kReportsProcesses) != 0;
}

}  // namespace gpulens::sdk
