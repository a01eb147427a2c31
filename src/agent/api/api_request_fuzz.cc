// Targets of requests come from the network and from the control socket.
#include <cstdint>
#include <cstdlib>

#include "agent/api/api.h"
#include "base/text.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view target(reinterpret_cast<const char*>(data), size);
  auto request = gpulens::ApiRequest::Parse(target);
  if (!request) {
    if (request.error().code != gpulens::Code::kInvalidArgument || request.error().detail.size() > 200)
      std::abort();
    return 0;
  }
  if (request->parameters.size() > 64) std::abort();
  size_t bytes = request->path.size();
  for (const auto& [name, value] : request->parameters) {
    if (!gpulens::IsUtf8(name) || !gpulens::IsUtf8(value) || !request->Find(name)) std::abort();
    bytes += name.size() + value.size();
  }
  if (bytes > size) std::abort();  // decoding makes nothing longer
  return 0;
}
