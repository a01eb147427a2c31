// Authentication of clients by the web config, which is reloaded when its files change.
//
// All servers of the process share one Authenticator. Good passwords are remembered, so that a scraper pays
// for bcrypt once. A wrong password takes as long as the most expensive hash of the file, for any user name.
#pragma once

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <gpulens/status.h>

#include "net/auth/web_config.h"
#include "net/io_loop.h"
#include "net/message/address.h"

namespace gpulens {

// Waiting password checks in a fair order: addresses take turns, each with its oldest check. Not thread-safe.
class PasswordQueue {
 public:
  // Called once: with true to run, with false when it is dropped for another.
  using Job = std::function<void(bool turn)>;
  struct Limits {
    size_t waiting = 64;
    size_t of_one_address = 8;
  };
  explicit PasswordQueue(const Limits& limits) : limits_(limits) {}

  // Adds a check. In a full queue the newest check of the address that has most is dropped, into `gone`.
  // False, and `job` is untouched, when that address has its share, or the queue is full and no address has
  // more.
  bool Push(const Endpoint& from, Job& job, Job& gone);
  std::optional<Job> Pop();
  bool empty() const noexcept { return size_ == 0; }
  size_t size() const noexcept { return size_; }

 private:
  // IPv4 by address, IPv6 by its /64 network, this machine as one.
  using Key = std::array<uint8_t, 9>;
  static Key KeyOf(const Endpoint& from) noexcept;

  const Limits limits_;
  std::map<Key, std::deque<Job>> waiting_;  // none is empty
  std::optional<Key> last_;                 // had the last turn
  size_t size_ = 0;
};

// Runs password checks on a thread of low priority, as bcrypt takes 50 ms to seconds a try and any client may
// cause one. Thread-safe. The thread starts with the first check.
class PasswordThread {
 public:
  explicit PasswordThread(const PasswordQueue::Limits& limits = {}) : queue_(limits) {}
  ~PasswordThread() { Stop(); }
  PasswordThread(const PasswordThread&) = delete;
  PasswordThread& operator=(const PasswordThread&) = delete;

  // False, and the job is not called, when there is no room, after Stop, or without a thread. A job dropped
  // for another is called by the thread that posts the other.
  bool Post(const Endpoint& from, PasswordQueue::Job job);
  // Finishes the running check; drops waiting ones without a call.
  void Stop();

 private:
  void Run();

  std::mutex mutex_;
  std::condition_variable wake_;
  PasswordQueue queue_;
  bool stopping_ = false;
  std::thread thread_;
};

enum class Access : uint8_t {
  kGranted,
  kDenied,
  kBusy,     // too many passwords are being checked already
  kPending,  // only from Check: the callback gets the result
};

// Headers of every response that the web config does not override.
inline constexpr const char* kSafeHeaders = "X-Content-Type-Options: nosniff\r\nX-Frame-Options: DENY\r\n";

// The rules in force for a server. Immutable.
struct WebRules {
  std::shared_ptr<const TlsContext> tls;   // null: plain
  std::string headers = kSafeHeaders;      // whole lines
  std::string challenge;                   // value of WWW-Authenticate; empty: no password needed
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

  // The rules for a new connection. Checks at most once a second for changed files; keeps the old rules, with
  // a log line, when the new ones are bad.
  std::shared_ptr<const WebRules> Rules();
  // Reloads at once. The old rules stay when this fails.
  Status Reload();
  // Sets OriginPolicy::hosts.
  void AllowHosts(std::vector<std::string> names);
  // The last valid file.
  const WebConfig& config() const noexcept;
  uint64_t failed_reloads() const noexcept;

  // Checks the value of an Authorization header (empty: none) from `from`. Only after kPending calls `done`,
  // on the loop, never from inside, possibly after the connection is gone.
  Access Check(std::string_view authorization, const Endpoint& from, std::function<void(Access)> done);

 private:
  struct State;
  explicit Authenticator(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

}  // namespace gpulens
