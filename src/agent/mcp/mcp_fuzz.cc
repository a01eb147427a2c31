// Whatever a client sends, and whatever a node answers, the answer is one line of JSON or nothing.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "agent/mcp/mcp.h"
#include "base/json.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using gpulens::JsonScanner;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  // What follows a zero byte is the page that the node answers.
  const size_t split = input.find('\0');
  const std::string page(split == std::string_view::npos ? "{}" : input.substr(split + 1));
  const gpulens::McpServer server(
      [&page](const std::string&) -> gpulens::Result<std::string> { return page; });
  const gpulens::McpHeaders headers = {
      .version = "2026-07-28", .method = "tools/call", .name = "why", .repeated = false};
  for (const gpulens::McpHeaders* given : {static_cast<const gpulens::McpHeaders*>(nullptr), &headers}) {
    const gpulens::McpAnswer answer = server.Answer(input.substr(0, split), given);
    if (answer.text.empty()) {
      if (answer.status != 202) std::abort();
      continue;
    }
    JsonScanner json(answer.text);
    json.Skip();
    if (!json.Finish() || answer.text.find('\n') != std::string::npos) std::abort();
  }
  return 0;
}
