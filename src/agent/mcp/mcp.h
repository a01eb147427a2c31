// The Model Context Protocol: tools with which programs that reason read a node. Every tool only reads.
//
// One function answers the messages of both transports, lines of the standard input (`gpulens mcp`) and POST
// /mcp. It keeps no session. Versions: those of the initialize handshake up to 2025-11-25, and 2026-07-28, in
// which each request carries its version.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include <gpulens/status.h>

namespace gpulens {

// Headers of a POST that must agree with its body; empty: absent.
struct McpHeaders {
  std::string version;       // MCP-Protocol-Version
  std::string method, name;  // Mcp-Method, Mcp-Name
  bool repeated = false;     // one of them came twice
};

struct McpAnswer {
  std::string text;  // JSON without a newline; empty: nothing is answered
  int status = 200;  // of HTTP
};

// Thread-safe as `get` is.
class McpServer {
 public:
  static constexpr size_t kMostMessage = 1 << 20;   // bytes of a message; a longer one is refused
  static constexpr size_t kMostResult = 256 << 10;  // bytes of a tool's result, as JSON
  static constexpr size_t kMostSeries = 100;        // of an answer of the tool `history`
  static constexpr size_t kMostSteps = 240;         // of a series

  // Returns a page of the node: "/api/now" (docs/api.md).
  using Get = std::function<Result<std::string>(const std::string& target)>;

  explicit McpServer(Get get) : get_(std::move(get)) {}

  // Answers one message. `headers` is null where there are none. Never fails: what is wrong is an error of
  // JSON-RPC or, when a tool cannot answer, a result with `isError` that names what to do.
  McpAnswer Answer(std::string_view message, const McpHeaders* headers = nullptr) const;

 private:
  Get get_;
};

}  // namespace gpulens
