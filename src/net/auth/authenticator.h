// Who may connect: the web config applied, and re-read when its files change.
//
// One Authenticator serves every HTTP and WebSocket server of the process. Passwords are checked with
// bcrypt on a worker, since that takes 50 to 300 ms; what was found good is remembered, so a scraper
// pays once. Names that do not exist take as long as names that do.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include <gpulens/status.h>

#include "net/auth/web_config.h"
#include "net/io_loop.h"

namespace gpulens {

enum class Access : uint8_t {
  kGranted,
  kDenied,
  kBusy,     // too many passwords are being checked already
  kPending,  // only from Check: the callback will tell
};

// What a server has to know of the rules in force. Immutable.
struct WebRules {
  std::shared_ptr<const TlsContext> tls;  // null: plain
  std::string headers;                    // whole lines, each with its end
  std::string challenge;                  // WWW-Authenticate's value; empty when nobody is asked
};

// Used on the loop's thread, except Open and the offloaded work. Outlives the servers that use it.
class Authenticator {
 public:
  // Runs a task on a thread that may take its time; never drops one.
  using Offload = std::function<void(std::function<void()>)>;
  // At most so many passwords are waiting to be checked.
  static constexpr size_t kMaxPending = 32;

  // Reads the file; an empty path means no TLS and no users. Errors are those of LoadWebConfig and
  // TlsContext::Server.
  static Result<std::unique_ptr<Authenticator>> Open(IoLoop& loop, const std::string& path, Offload offload);
  ~Authenticator();

  // The rules for a new connection. Looks at most once a second whether a file has changed, and keeps
  // the old rules, with a log line, when the new ones are bad.
  std::shared_ptr<const WebRules> Rules();
  // Re-reads at once, for a reload command. The old rules stay when this fails.
  Status Reload();
  // The file as it was last read well.
  const WebConfig& config() const noexcept;
  uint64_t failed_reloads() const noexcept;

  // Judges the value of an Authorization header (empty: none was sent). `done` is called on the loop,
  // and only after kPending; never from inside. It must be safe to call after the connection is gone.
  Access Check(std::string_view authorization, std::function<void(Access)> done);

 private:
  struct State;
  explicit Authenticator(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

}  // namespace gpulens
