// Who may connect: the web config applied, and re-read when its files change.
//
// One Authenticator serves every HTTP and WebSocket server of the process. Passwords are checked with
// bcrypt by another thread, since that takes 50 ms to seconds; what was found good is remembered, so a
// scraper pays once. A wrong password costs as much as the dearest hash of the file, whoever is named.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

#include "net/auth/password_thread.h"
#include "net/auth/web_config.h"
#include "net/io_loop.h"

namespace gpulens {

enum class Access : uint8_t {
  kGranted,
  kDenied,
  kBusy,     // too many passwords are being checked already
  kPending,  // only from Check: the callback will tell
};

// Of every answer, where the web config does not say something else.
inline constexpr const char* kSafeHeaders = "X-Content-Type-Options: nosniff\r\nX-Frame-Options: DENY\r\n";

// What a server has to know of the rules in force. Immutable.
struct WebRules {
  std::shared_ptr<const TlsContext> tls;   // null: plain
  std::string headers = kSafeHeaders;      // whole lines, each with its end
  std::string challenge;                   // WWW-Authenticate's value; empty when nobody is asked
  std::vector<std::string> allowed_hosts;  // OriginPolicy::hosts
  // OriginPolicy::open.
  bool open() const noexcept { return !tls && challenge.empty(); }
};

// Used on the loop's thread, except Open and the offloaded work. Outlives the servers that use it.
class Authenticator {
 public:
  // PasswordThread::Post: takes the check of a client's password, or has no room for it.
  using Offload = std::function<bool(const Endpoint& from, PasswordQueue::Job job)>;

  // Reads the file; an empty path means no TLS and no users. Errors are those of LoadWebConfig and
  // TlsContext::Server.
  static Result<std::unique_ptr<Authenticator>> Open(IoLoop& loop, const std::string& path, Offload offload);
  ~Authenticator();

  // The rules for a new connection. Looks at most once a second whether a file has changed, and keeps
  // the old rules, with a log line, when the new ones are bad.
  std::shared_ptr<const WebRules> Rules();
  // Re-reads at once, for a reload command. The old rules stay when this fails.
  Status Reload();
  // Names by which this machine may be asked for: OriginPolicy::hosts.
  void AllowHosts(std::vector<std::string> names);
  // The file as it was last read well.
  const WebConfig& config() const noexcept;
  uint64_t failed_reloads() const noexcept;

  // Judges the value of an Authorization header (empty: none was sent) that `from` sent. `done` is called on
  // the loop, and only after kPending; never from inside. It must be safe to call after the connection is
  // gone.
  Access Check(std::string_view authorization, const Endpoint& from, std::function<void(Access)> done);

 private:
  struct State;
  explicit Authenticator(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

}  // namespace gpulens
