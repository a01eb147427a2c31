// The connection of one client of an HttpServer. Internal to net/http; lives on the loop's thread.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/fd.h"
#include "net/http/http_server.h"
#include "net/io_loop.h"
#include "net/message/http_message.h"
#include "net/message/http_parser.h"
#include "net/message/request_origin.h"
#include "net/server/server.h"
#include "net/stream.h"

namespace gpulens {

// Large bodies that are sent repeatedly, as files in memory, whose pages the kernel sends without copying.
// Remembers the last few by their owner without keeping them alive; a file is closed at most a second after
// its body.
class HttpBodyFiles {
 public:
  static constexpr size_t kLeastBytes = 256 << 10;
  // Times that a body is sent from its own bytes before it gets a file.
  static constexpr uint32_t kPlainSends = 2;

  explicit HttpBodyFiles(IoLoop& loop) noexcept : loop_(loop) {}
  ~HttpBodyFiles();
  HttpBodyFiles(const HttpBodyFiles&) = delete;
  HttpBodyFiles& operator=(const HttpBodyFiles&) = delete;

  // The file of a body that is about to be sent. Null: send the bytes.
  std::shared_ptr<const UniqueFd> For(const SharedBytes& body);

 private:
  struct Entry {
    std::weak_ptr<const void> owner;
    const char* data = nullptr;
    size_t size = 0;
    uint32_t sends = 0;
    std::shared_ptr<const UniqueFd> file;
  };

  void Forget();

  IoLoop& loop_;
  std::array<Entry, 2> entries_;
  size_t next_ = 0;  // the one to be replaced
  IoLoop::TimerId timer_ = 0;
};

// State that the connections of one server share. A connection touches it only until its Close.
struct HttpShared {
  IoLoop& loop;
  HttpHandler& handler;
  Authenticator* authenticator;
  HttpLimits limits;
  ServerStats stats;
  HttpBodyFiles files;
  // Shared by all connections; only incomplete input is kept with its connection.
  std::array<char, 16384> buffer;
  std::unique_ptr<HttpParser> spare_parser;
  size_t arriving = 0;        // bytes of incomplete bodies
  ConnectionSet connections;  // last: its end closes them, and that uses the others
};

class HttpConnection final : public Connection, private StreamHandler {
 public:
  HttpConnection(HttpShared& shared, Stream stream, const Endpoint& peer,
                 std::shared_ptr<const WebRules> rules);

  void Start();
  // Answers request `number`. Ignored when it is already answered or the client is gone.
  void Answer(uint64_t number, HttpResponse response);
  bool gone() const noexcept { return gone_.load(std::memory_order_relaxed); }

  void OnDeadline(Phase phase) override;
  void Close() override;
  void FinishAndClose() override;

 private:
  // A request that is not completely answered; in the order of arrival.
  struct Slot {
    uint64_t number = 0;
    bool ready = false, head_only = false, close = false, http10 = false;
    std::string head;
    SharedBytes body;
    std::shared_ptr<const UniqueFd> file;  // null: send the bytes of `body`
    size_t size() const noexcept { return head.size() + body.bytes.size(); }
  };

  void OnReadable() override;
  void OnWritable() override;

  bool CanParse() const noexcept;
  void Parse(std::string_view fresh);
  void ForgetRequest() {
    CountBody(0);
    parser_ = nullptr;
    unparsed_ = {};
  }
  // False when all connections together hold too much.
  bool CountBody(size_t bytes) {
    shared_.arriving += bytes - counted_body_;
    counted_body_ = bytes;
    return shared_.limits.arriving_bytes == 0 || shared_.arriving <= shared_.limits.arriving_bytes;
  }
  void OnRequest();
  void OnAccess(Access access);
  void ApplyAccess(Access access);
  void Deny(HttpResponse response);
  void HandOver();
  void KeepParser();
  void Reject(int status, std::string_view why);
  void FillSlot(Slot& slot, HttpResponse response, bool last);
  IoResult WriteReady(size_t& total);
  void Flush();
  void Sent(size_t bytes);
  void Discard(size_t bytes);
  void Linger();
  void PeerFinished();
  void Broken();
  void Settle();

  HttpShared& shared_;
  Stream stream_;
  Endpoint peer_;
  const Arrival arrival_;
  std::shared_ptr<const WebRules> rules_;
  std::unique_ptr<HttpParser> parser_;  // only while a request is incomplete or waits for its access
  std::string unparsed_;                // received, not yet parsed
  std::vector<Slot> slots_;
  uint64_t next_number_ = 0;
  size_t sent_ = 0;      // of the first slot
  size_t progress_ = 0;  // written since the write timeout last started
  size_t discarded_ = 0;
  size_t counted_body_ = 0;           // of HttpShared::arriving
  HttpUpgrader* upgrader_ = nullptr;  // gets the connection when the present callback ends
  std::atomic<bool> gone_{false};
  bool busy_ = false;        // inside a callback that ends with Settle
  bool held_ = false;        // unparsed_ waits for a free slot, not for bytes
  bool last_taken_ = false;  // no further request is taken
  bool awaits_access_ = false;
  bool input_ended_ = false;
  bool lingering_ = false;
  bool finishing_ = false;
  bool new_request_ = false;  // the phase starts again even when it is the same
};

}  // namespace gpulens
