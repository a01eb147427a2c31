// Which process has the lock of a log's folder, without taking it: a lock that is tried is held for a moment,
// and an agent that starts then would find the folder in use. So the kernel's list of locks is read.
#pragma once

#include <cstdint>
#include <optional>

namespace gpulens {

// `folder`: a descriptor. Nothing when nobody is known to have it: also where there is no /proc. 0: a process
// that is not seen from here.
std::optional<int64_t> LockHolder(int folder);

}  // namespace gpulens
