// A blocking server for tests of clients: it answers with any bytes, right or wrong, fast or slow.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/fd.h"
#include "net/message/address.h"
#include "net/tls.h"

namespace gpulens::testing {

// For threads of tests that write by OpenSSL's own socket, which knows no MSG_NOSIGNAL.
void BlockSigpipe() noexcept;

// Thread-safe. Every connection has a thread; destruction ends them all.
class ScriptedServer {
 public:
  // What happens once a request has come.
  struct Turn {
    std::string answer = {};
    size_t step = 0;       // so many bytes a write; 0: all at once
    bool endless = false;  // the answer again and again, until the client leaves
    bool close = false;    // ends the connection afterwards
    bool reset = false;    // ... with a reset
  };
  // `connection` and `exchange` count from 0. Called by several threads.
  using Play = std::function<Turn(int connection, int exchange, const std::string& request)>;

  explicit ScriptedServer(Play play, std::shared_ptr<const TlsContext> tls = nullptr,
                          const std::string& listen = "127.0.0.1:0");
  ~ScriptedServer();

  const Endpoint& endpoint() const noexcept { return endpoint_; }
  // "http://127.0.0.1:12345" and the path.
  std::string Url(const std::string& path) const;
  int connections() const noexcept { return connections_; }
  std::vector<std::string> requests() const;
  // Ends all connections that are open now.
  void DropConnections();

 private:
  struct Peer;
  void Accept();
  void Serve(Peer& peer, int number);

  const Play play_;
  const std::shared_ptr<const TlsContext> tls_;
  Endpoint endpoint_;
  UniqueFd listener_;
  std::atomic<int> connections_{0};
  std::atomic<bool> stopping_{false};
  mutable std::mutex mutex_;  // guards what follows
  std::vector<std::string> requests_;
  std::vector<std::unique_ptr<Peer>> peers_;
  std::thread thread_;
};

// A whole 200 answer with its length.
std::string Answer200(const std::string& body, const std::string& fields = "Content-Type: text/plain\r\n");

}  // namespace gpulens::testing
