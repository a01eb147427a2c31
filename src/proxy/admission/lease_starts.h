// The starts of a replica whose leases may not have ended, in a file, so that the next start can report what
// they spent (LeaseKeeper::ReportEnded).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <gpulens/status.h>

namespace gpulens::proxy {

struct LeaseStart {
  int64_t fence = 0;
  int64_t since_unix_ns = 0;  // charges that were settled from then to the next start are its

  bool operator==(const LeaseStart&) const = default;
};
inline constexpr size_t kMostLeaseStarts = 100;

// In the order of the file; empty where there is none. kInvalidArgument: it is damaged.
Result<std::vector<LeaseStart>> ReadLeaseStarts(const std::string& path);
// On disk when it returns. Keeps the last kMostLeaseStarts.
Status WriteLeaseStarts(const std::string& path, const std::vector<LeaseStart>& starts);

}  // namespace gpulens::proxy
