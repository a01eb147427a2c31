// The connection of one client of a RelayServer. Internal to net/relay; lives on the loop's thread.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "net/relay/relay_server.h"
#include "net/relay/upstream_connection.h"
#include "net/stream.h"

namespace gpulens {

// State that the connections of one server share. A connection touches it only until its Close.
struct RelayShared {
  IoLoop& loop;
  RelayPolicy& policy;
  const RelayOptions options;
  RelayStats stats;
  // One read of any connection, client or upstream.
  std::array<char, 64 << 10> buffer;
  std::vector<std::string_view> pieces;  // payload that goes out with the present callback
  std::vector<std::string_view> out;     // what one Flush writes
  int busy = 0;                          // callbacks of policies that are running
  ConnectionSet connections;             // last: its end closes them, and that uses the others
};

class RelayConnection final : public Connection, private StreamHandler, private UpstreamUser {
 public:
  RelayConnection(RelayShared& shared, Stream stream, const Endpoint& peer,
                  std::shared_ptr<const WebRules> rules);

  void Start();
  void Answer(uint64_t number, HttpResponse response);
  void Forward(uint64_t number, const RelayForward& forward);
  void Resume(uint64_t number);
  void Abort(uint64_t number);
  bool Over(uint64_t number) const noexcept { return !active_ || number != number_; }

  void OnDeadline(Phase phase) override;
  void Close() override;
  void FinishAndClose() override;

 private:
  enum class State : uint8_t {
    kHead,      // a request is expected, or its head has begun
    kBody,      // its body arrives
    kDecide,    // the policy has it
    kUpstream,  // sent on; no answer yet
    kAnswer,    // an upstream's answer passes
    kReply,     // an answer of our own is being written
    kCut,       // the last bytes of a cut answer are being written
    kLinger,
  };

  void OnReadable() override;
  void OnWritable() override;
  std::span<char> ReadBuffer() override { return shared_.buffer; }
  void OnInterim(const RelayHead& head) override;
  void OnAnswerHead(const RelayHead& head, RelayFraming framing) override;
  bool OnAnswerBody(std::string_view piece, bool end, std::string_view trailers) override;
  void OnAnswerFailed(RelayFailure failure, std::string detail, bool repeat) override;

  // Runs a callback of the policy, which may destroy nothing of this connection meanwhile.
  template <class F>
  void Call(const F& callback) {
    ++busy_, ++shared_.busy;
    callback();
    --busy_, --shared_.busy;
  }
  void Kick();
  void Proceed();
  void Settle();

  void TakeInput(std::span<char> fresh);
  void TakeBody(std::span<char>& bytes);
  void BeginExchange(bool body_has_come);
  void RequestWhole();
  RelayRequest Request() const { return {request_, body_, peer_, stream_.is_tls()}; }
  void Refuse(int status, std::string_view why);
  void Reply(HttpResponse response, bool close);
  void BuildRequest(const RelayForward& forward);
  void StartUpstream(bool fresh);
  void AttemptFailed(RelayFailure failure, std::string detail, bool dispatched);
  void BuildHead(const RelayHead& head, RelayFraming framing, const RelayPass& pass);
  void EndAnswer();
  void ResumeNow();
  void AbortNow();
  void Cut(RelayEnd end);
  bool KeepBegin();
  void Flush(std::string_view tail = {});
  void Written();
  void AnswerDone(RelayEnd end);
  void PeerFinished();
  void Broken();
  void ClientGone(RelayEnd end);
  void EndExchange(RelayEnd end);
  void Linger();
  void ReleaseBody();
  bool WantsInput() const noexcept;
  bool AtUpstream() const noexcept { return state_ == State::kUpstream || state_ == State::kAnswer; }

  RelayShared& shared_;
  Stream stream_;
  const Endpoint peer_;
  std::shared_ptr<const WebRules> rules_;
  State state_ = State::kHead;

  RelayHead request_;
  RelayBodyWalk request_walk_;
  std::string input_;  // received, not yet taken
  std::string body_;
  size_t counted_body_ = 0;  // of RelayStats::arriving
  std::unique_ptr<RelayExchange> exchange_;
  uint64_t number_ = 0;

  Ref<UpstreamPool> pool_, next_pool_;
  Ref<UpstreamConnection> upstream_;
  std::string upstream_head_;
  std::vector<std::string_view> upstream_body_;

  // What the policy has called for; done when its callback has returned.
  std::optional<HttpResponse> answer_;
  bool forward_ = false, resume_ = false, abort_ = false;

  std::string pending_;  // for the client, not yet written
  size_t pending_at_ = 0;
  size_t progress_ = 0;    // bytes since the phase was entered
  uint64_t declared_ = 0;  // the Content-Length that the client was sent
  std::string trailers_;
  RelayOutcome outcome_;
  std::string detail_;
  RelayEnd gone_end_ = RelayEnd::kClientGone;
  uint64_t drain_left_ = 0;
  IoLoop::TimerId drain_timer_ = 0;
  size_t discarded_ = 0;
  int busy_ = 0, attempts_ = 0;
  bool gone_ = false, active_ = false, blocked_ = false, write_failed_ = false;
  // Of the present answer.
  bool write_first_ = true, chunked_ = false, has_length_ = false, passes_trailers_ = false, reset_ = false;
  bool held_ = false, answer_ended_ = false, end_passed_ = false, at_end_ = false;
  bool close_ = false;        // no further request after it
  bool client_left_ = false;  // the upstream's answer is drained
  bool streaming_ = false;    // counted in RelayStats::streams
  bool look_again_ = false;   // input_ may hold a whole request
  bool new_phase_ = false;    // the phase starts again even when it is the same
  bool input_ended_ = false, finishing_ = false;
};

}  // namespace gpulens
