// The control socket's parser meets whatever a local process sends.
#include <cstdint>
#include <cstdlib>

#include "agent/control/control_socket.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto command = gpulens::ParseControlCommand({reinterpret_cast<const char*>(data), size});
  if (!command) {
    if (command.error().detail.empty() || command.error().detail.size() > gpulens::kMaxControlLine)
      std::abort();
    return 0;
  }
  if (command->words.size() > gpulens::kMaxGetLine) std::abort();
  if (command->length < gpulens::Duration(0) || command->length > std::chrono::hours(24)) std::abort();
  return 0;
}
