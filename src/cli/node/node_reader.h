// How commands read a node (`gpulens top`, `why`, `trace`, `mcp`): the pages below /api (docs/api.md) of a
// running agent, by its control socket or a URL, or of this process, which then collects by itself.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include <gpulens/status.h>

#include "base/clock.h"
#include "cli/url/url_request.h"

namespace CLI {
class App;
}

namespace gpulens {

struct NodeOptions : UrlOptions {
  // "http://n1:9091", "https://user:password@n1:9091". Empty: the agent of the configuration (control socket,
  // then loopback addresses of HTTP) or, when none answers, this process.
  std::string url;
  std::string socket;  // control socket of the agent; then nothing else is tried
  std::string config_file;
  bool direct = false;                          // this process, even when an agent answers
  bool demo = false;                            // this process, with simulated GPUs
  Duration timeout = std::chrono::seconds(10);  // of one page
};

// Adds --socket, --header, --ca-file, --insecure-skip-verify, --direct, --demo and --config.
void AddNodeOptions(CLI::App& command, NodeOptions& options);

// Used by one thread at a time. Calls block.
class NodeReader {
 public:
  enum Kind : unsigned char { kSocket, kUrl, kThisProcess };

  // kInvalidArgument: an option cannot be used, the detail names it. A URL or socket of the options is not
  // contacted yet. Starts collecting when it is this process, and returns when the first values are there, at
  // most 3 s later.
  static Result<std::unique_ptr<NodeReader>> Open(const NodeOptions& options);
  virtual ~NodeReader() = default;

  // Returns the page as JSON. `target`: "/api/history?window=1m". kUnavailable: no agent answers, or it has
  // no such page. The detail names what failed and what to do. After a failure the next call tries again.
  virtual Result<std::string> Get(std::string_view target) = 0;
  virtual Kind kind() const = 0;
  // "the agent at /run/gpulens/gpulens.sock", "https://n1:9091", "this process". Without passwords.
  virtual std::string name() const = 0;
  // Of kThisProcess: why no agent is read ("no agent answers at …"); empty when that was wanted.
  const std::string& why_direct() const noexcept { return why_direct_; }

 private:
  friend class NodeOpener;
  std::string why_direct_;
};

}  // namespace gpulens
