// One client of an HttpServer. Inside src/net/http only; lives on the loop's thread.
#pragma once

#include <array>
#include <atomic>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "net/accept/connection_set.h"
#include "net/http/http_body_files.h"
#include "net/http/http_server.h"
#include "net/message/http_parser.h"
#include "net/message/request_origin.h"
#include "net/stream.h"

namespace gpulens {

// What the connections of one server share. A connection touches it only until its Close.
struct HttpShared {
  IoLoop& loop;
  HttpHandler& handler;
  Authenticator* authenticator;
  HttpLimits limits;
  ServerStats stats;
  HttpBodyFiles files;
  // Connections read into this one buffer and parse with this one parser; only what a client has sent
  // in part is kept with it.
  std::array<char, 16384> buffer;
  std::unique_ptr<HttpParser> spare_parser;
  size_t arriving = 0;        // bytes of bodies that are not whole yet
  ConnectionSet connections;  // last: its end closes them, and that uses the others
};

class HttpConnection final : public Connection, private StreamHandler {
 public:
  HttpConnection(HttpShared& shared, Stream stream, const Endpoint& peer,
                 std::shared_ptr<const WebRules> rules);

  void Start();
  // The answer to request `number`. Ignored when it is answered already or the client is gone.
  void Answer(uint64_t number, HttpResponse response);
  bool gone() const noexcept { return gone_.load(std::memory_order_relaxed); }

  void OnDeadline(Phase phase) override;
  void Close() override;
  void FinishAndClose() override;

 private:
  // A request that is not fully answered yet; in the order of arrival.
  struct Slot {
    uint64_t number = 0;
    bool ready = false, head_only = false, close = false, http10 = false;
    std::string head;
    SharedBytes body;
    std::shared_ptr<const UniqueFd> file;  // null: the body is sent from its bytes
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
  // False when all connections together hold more than they may.
  bool CountBody(size_t bytes) {
    shared_.arriving += bytes - counted_body_;
    counted_body_ = bytes;
    return shared_.limits.arriving_bytes == 0 || shared_.arriving <= shared_.limits.arriving_bytes;
  }
  void OnRequest();
  void OnAccess(Access access);
  void Validate(Access access);
  void Deny(HttpResponse response);
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
  std::string unparsed_;                // received, not yet taken by the parser
  std::vector<Slot> slots_;
  uint64_t next_number_ = 0;
  size_t sent_ = 0;      // of the first slot
  size_t progress_ = 0;  // written since the write timeout last started
  size_t discarded_ = 0;
  size_t counted_body_ = 0;  // of HttpShared::arriving
  std::atomic<bool> gone_{false};
  bool busy_ = false;        // inside a callback that ends with Settle
  bool held_ = false;        // unparsed_ waits for a free slot, not for bytes
  bool last_taken_ = false;  // no further request is taken
  bool awaits_access_ = false;
  bool input_ended_ = false;
  bool lingering_ = false;
  bool finishing_ = false;
  bool new_request_ = false;  // the phase starts anew even when it is the same
};

}  // namespace gpulens
