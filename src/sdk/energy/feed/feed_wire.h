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
  uint32_t device = 0;  // index in the list; unused by kDevices
};

// A device as the reader lists it.
struct FeedDevice {
  EnergyDevice device;
  EnergyVendor vendor = EnergyVendor::kNone;
};

// A reading with times of the reader's monotonic clock. `now_ns` shows a client with another clock (a
// container with a time namespace) the difference.
struct FeedReading {
  EnergyReading reading;  // its times are unused
  int64_t began_ns = 0, ended_ns = 0, now_ns = 0;
};

std::string EncodeFeedRequest(const FeedRequest& request);
std::string EncodeFeedFailure(const Status& status);
std::string EncodeFeedDevices(std::span<const FeedDevice> devices);  // the first kMostFeedDevices
std::string EncodeFeedReading(const FeedReading& reading);
// Encodes the first kMostFeedProcesses, without their PIDs.
std::string EncodeFeedProcesses(const EnergyProcesses& processes);

// Decode a message. kDataLoss: it is not valid. Returns the error of an encoded failure.
Result<FeedRequest> DecodeFeedRequest(std::string_view bytes);
Result<std::vector<FeedDevice>> DecodeFeedDevices(std::string_view bytes);
Result<FeedReading> DecodeFeedReading(std::string_view bytes);
Result<EnergyProcesses> DecodeFeedProcesses(std::string_view bytes);
// Whether a server that answered with these devices supports kProcesses; older ones close the connection.
bool FeedReportsProcesses(std::string_view devices) noexcept;

}  // namespace gpulens::sdk
