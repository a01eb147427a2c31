// One connection of an UpstreamPool. Internal to net/relay; lives on the loop's thread.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "net/relay/relay_message.h"
#include "net/relay/upstream.h"
#include "net/server/server.h"
#include "net/stream.h"

namespace gpulens {

class UpstreamConnection final : public Connection, private StreamHandler {
 public:
  explicit UpstreamConnection(UpstreamPool& pool) noexcept : pool_(pool) {}

  // Looks up and connects, then sends.
  void Open(UpstreamUser& user, const UpstreamRequest& request);
  // Sends on a kept connection. False: it has ended, and nothing was sent.
  bool Reuse(UpstreamUser& user, const UpstreamRequest& request);
  // After OnAnswerBody returned false.
  void ReadOn();
  // The user wants no more: ends the connection without a further call.
  void Cancel();
  // Nothing of the request is needed any more.
  bool sent() const noexcept { return sent_ == size_ || write_failed_; }
  // Bytes that the kernel took, of the request.
  bool any_sent() const noexcept { return sent_ > 0; }

  void OnDeadline(Phase phase) override;
  void Close() override;
  void FinishAndClose() override { Close(); }

 private:
  // Phases of the pool's ConnectionSet, each with its timeout.
  friend class UpstreamPool;
  static constexpr Phase kConnecting = Phase::kRequest, kHandshake = Phase::kLinger,
                         kAwaitsHead = Phase::kWork, kAwaitsBody = Phase::kOpen, kPaused = Phase::kWrite,
                         kKept = Phase::kIdle;

  void OnReadable() override;
  void OnWritable() override;

  void Begin(UpstreamUser& user, const UpstreamRequest& request);
  void OnResolved(Result<std::vector<Endpoint>> found);
  void ConnectNext();
  void Send();
  void SendFailed();
  void TakeLast();
  void Take(std::span<char> bytes);
  // False: wait for more, or the connection is gone from the user. Sets `rest` to what follows the head.
  bool TakeHead(std::span<char>& rest);
  void TakeBody(std::span<char> bytes);
  void Ended();
  void Fail(RelayFailure failure, std::string detail);
  UpstreamUser* Leave();
  void CountResult(bool good);

  UpstreamPool& pool_;
  Stream stream_;
  UpstreamUser* user_ = nullptr;
  UpstreamRequest request_;
  size_t size_ = 0, sent_ = 0;  // of the request
  std::vector<Endpoint> addresses_;
  size_t next_address_ = 0;
  std::string connect_error_;
  std::string head_bytes_;  // of an incomplete head
  RelayHead head_;
  RelayBodyWalk walk_;
  int interim_ = 0;
  bool gone_ = false, connected_ = false, kept_before_ = false, begun_ = false, head_done_ = false;
  bool paused_ = false, write_failed_ = false, extra_ = false, counted_ = true;
};

}  // namespace gpulens
