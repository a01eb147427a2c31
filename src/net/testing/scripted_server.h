// A blocking HTTP server for tests of clients: answers with any bytes, right or wrong, fast or slow.
#pragma once

#include <openssl/types.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/fd.h"
#include "net/message/address.h"
#include "net/tls.h"

namespace gpulens::testing {

// Thread-safe. Each connection has a thread, which runs the script and then closes: with a reset when
// received bytes were not read. Destruction ends all connections and waits for the scripts.
class ScriptedServer {
 public:
  // The server's side of a connection. Every call returns early when the connection ends.
  class Peer {
   public:
    ~Peer();
    // The next request's head, with the blank line; empty when none comes.
    std::string Head();
    // The body that a head announces, up to `step` bytes a read; shorter when the connection ends.
    std::string Body(const std::string& head, size_t step = 64u << 10);
    // Reads until at least `size` bytes of a body lie here.
    void Some(size_t size);
    bool Write(std::string_view bytes);
    // Reads and drops everything until the client leaves; returns the number of bytes.
    size_t Linger();
    // Neither reads nor closes until the server ends.
    void Sit();
    void CloseWithReset();

   private:
    friend class ScriptedServer;
    Peer(ScriptedServer& server, int fd) : server_(server), fd_(fd) {}
    bool Fill(size_t step);

    ScriptedServer& server_;
    UniqueFd fd_;  // closed under the server's mutex
    SSL* ssl_ = nullptr;
    std::string seen_;
    std::thread thread_;
  };
  // `connection` counts from 0. Called by several threads.
  using Script = std::function<void(Peer& peer, int connection)>;

  // The response to one request.
  struct Turn {
    std::string answer = {};
    size_t step = 0;       // bytes per write; 0: all at once
    bool endless = false;  // repeats the answer until the client leaves
    bool close = false;    // ends the connection afterwards
    bool reset = false;    // ... with a reset
  };
  // `connection` and `exchange` count from 0. Called by several threads.
  using Play = std::function<Turn(int connection, int exchange, const std::string& request)>;

  explicit ScriptedServer(Script script, std::shared_ptr<const TlsContext> tls = nullptr,
                          const std::string& listen = "127.0.0.1:0");
  explicit ScriptedServer(Play play, std::shared_ptr<const TlsContext> tls = nullptr,
                          const std::string& listen = "127.0.0.1:0");
  ~ScriptedServer();

  const Endpoint& endpoint() const noexcept { return endpoint_; }
  // "http://127.0.0.1:12345" and the path.
  std::string Url(const std::string& path) const;
  int connections() const noexcept { return connections_; }
  // Connections whose script has ended, and which are closed.
  int closed() const noexcept { return closed_; }
  // What a Play was called with.
  std::vector<std::string> requests() const;
  // Ends all connections that are open now.
  void DropConnections();

 private:
  void Accept();
  void Serve(Peer& peer, int number);
  void Perform(const Play& play, Peer& peer, int number);

  const Script script_;
  const std::shared_ptr<const TlsContext> tls_;
  Endpoint endpoint_;
  UniqueFd listener_;
  std::atomic<int> connections_{0}, closed_{0};
  std::atomic<bool> stopping_{false};  // set under the mutex
  mutable std::mutex mutex_;           // guards what follows
  std::condition_variable ends_;
  std::vector<std::string> requests_;
  std::vector<std::unique_ptr<Peer>> peers_;
  std::thread thread_;
};

// A complete 200 response with its length.
std::string Answer200(const std::string& body, const std::string& fields = "Content-Type: text/plain\r\n");

}  // namespace gpulens::testing
