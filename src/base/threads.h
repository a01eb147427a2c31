// The one way to start a thread: where the machine has no room for another (a limit of processes, memory),
// the caller is told so, and nothing is thrown. What cannot do without the thread says so and tries again
// later.
#pragma once

#include <cstddef>
#include <functional>
#include <thread>

#include <gpulens/status.h>

namespace gpulens {

// `thread` must not be joinable; it is as it was when this fails. kExhausted: "start a thread: …".
// Thread-safe.
Status StartThread(std::thread& thread, std::function<void()> body);

// One that nobody joins. `stack_bytes` 0: the usual stack.
Status StartDetachedThread(std::function<void()> body, size_t stack_bytes = 0);

}  // namespace gpulens
