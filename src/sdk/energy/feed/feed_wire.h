// Messages between a program and the agent's energy reader, over a Unix socket of packets: request and
// answer, in the machine's byte order. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/energy_source.h>
#include <gpulens/status.h>

namespace gpulens::sdk {

inline constexpr size_t kMostFeedDevices = 64;
inline constexpr size_t kMostFeedProcesses = 1024;
// Maximum bytes of a packet.
inline constexpr size_t kMostFeedBytes = 32 * 1024;

struct FeedRequest {
  enum class Kind : uint32_t { kDevices = 1, kRead, kProcesses };
  Kind kind = Kind::kDevices;
  uint32_t device = 0;  // of the others: its number in the list
};

struct FeedDevice {
  EnergyDevice device;
  EnergyVendor vendor = EnergyVendor::kNone;
};

// Times are of the monotonic clock of who reads. `now_ns` lets one whose clock is another (a container with a
// time of its own) see by how much.
struct FeedReading {
  EnergyReading reading;  // but for its times
  int64_t began_ns = 0, ended_ns = 0, now_ns = 0;
};

std::string EncodeFeedRequest(const FeedRequest& request);
std::string EncodeFeedFailure(const Status& status);
std::string EncodeFeedDevices(std::span<const FeedDevice> devices);  // the first kMostFeedDevices
std::string EncodeFeedReading(const FeedReading& reading);
// At most kMostFeedProcesses, without their PIDs.
std::string EncodeFeedProcesses(const EnergyProcesses& processes);

// kDataLoss: it is none. A failure that was encoded comes back as it was.
Result<FeedRequest> DecodeFeedRequest(std::string_view bytes);
Result<std::vector<FeedDevice>> DecodeFeedDevices(std::string_view bytes);
Result<FeedReading> DecodeFeedReading(std::string_view bytes);
Result<EnergyProcesses> DecodeFeedProcesses(std::string_view bytes);
// Whether a server that answered with these devices supports kProcesses; older ones close the connection.
bool FeedReportsProcesses(std::string_view devices) noexcept;

}  // namespace gpulens::sdk
