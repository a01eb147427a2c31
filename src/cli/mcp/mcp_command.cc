// `gpulens mcp`: the Model Context Protocol over the standard input and output.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <memory>
#include <string>

#include "agent/mcp/mcp.h"
#include "base/log.h"
#include "cli/common/output.h"
#include "cli/help/help.h"
#include "cli/node/node_reader.h"

namespace gpulens {
namespace {

constexpr const char* kMcpFooter = R"(
  gpulens mcp                                the agent of this machine or, when none answers, this process
  gpulens mcp https://n1:9091 --header 'Authorization: Bearer …'
  {"mcpServers": {"gpulens": {"command": "gpulens", "args": ["mcp"]}}}     in the configuration of a client

For programs that reason: they start this command and call its tools, which only read: list_gpus, history, events, why,
explain, engines, experiments. A running agent answers the same at POST /mcp, with the password of its other pages.
Exit: 0 the input ended · 1 the output cannot be written · 2 wrong use)";

// The node is opened by the first call of a tool, so that clients, which start this program whenever they
// start, do not wait for it.
class LateNode {
 public:
  explicit LateNode(const NodeOptions& options) : options_(options) {}

  Result<std::string> Get(const std::string& target) {
    if (!node_) {
      auto opened = NodeReader::Open(options_);
      if (!opened) return opened.error();
      node_ = *std::move(opened);
      if (!node_->why_direct().empty())
        WriteNote("gpulens mcp: " + node_->why_direct() + "; this process reads by itself");
    }
    return node_->Get(target);
  }

 private:
  const NodeOptions& options_;
  std::unique_ptr<NodeReader> node_;
};

int ServeMcp(const NodeOptions& options) {
  LateNode node(options);
  const McpServer server([&node](const std::string& target) { return node.Get(target); });
  std::string line, piece(64 << 10, '\0');
  bool too_long = false;
  const auto answer = [&] {
    if (line.ends_with('\r')) line.pop_back();
    if (line.empty()) return true;
    const McpAnswer made = server.Answer(line);
    return made.text.empty() || WriteAll(STDOUT_FILENO, made.text + "\n");
  };
  for (;;) {
    const ssize_t got = ::read(STDIN_FILENO, piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    std::string_view rest(piece.data(), static_cast<size_t>(got));
    while (!rest.empty()) {
      const size_t end = rest.find('\n');
      const std::string_view part = rest.substr(0, end);
      // Of a line that is too long, so much is kept that it is refused as such.
      if (!too_long) line.append(part.substr(0, McpServer::kMostMessage + 1 - line.size()));
      too_long = line.size() > McpServer::kMostMessage;
      if (end == std::string_view::npos) break;
      rest.remove_prefix(end + 1);
      if (!answer()) return 1;
      line.clear();
      too_long = false;
    }
  }
  return answer() ? 0 : 1;
}

}  // namespace

void AddMcp(CLI::App& app, int& code) {
  auto options = std::make_shared<NodeOptions>();
  CLI::App* mcp = app.add_subcommand("mcp", "Serve what a node measures to programs that reason (MCP).");
  mcp->group("Look");
  mcp->add_option("URL", options->url, "The agent to read; default: the one of this machine");
  AddNodeOptions(*mcp, *options);
  mcp->footer(kMcpFooter);
  mcp->callback([options, &code] {
    static_cast<void>(SetLogLevels("error"));
    if (::isatty(STDIN_FILENO))
      WriteNote("gpulens mcp: reads messages of a client from the standard input; gpulens mcp --help");
    code = ServeMcp(*options);
  });
}

}  // namespace gpulens
