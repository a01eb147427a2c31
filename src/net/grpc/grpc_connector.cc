#include "net/grpc/grpc_connector.h"

#include <utility>

namespace gpulens {

using Outcome = IoResult::Outcome;

void GrpcConnector::Start(std::shared_ptr<const TlsContext> tls, Duration timeout, Done done) {
  Cancel();
  tls_ = std::move(tls);
  timeout_ = timeout;
  done_ = std::move(done);
  addresses_.clear();
  address_ = 0;
  last_error_.clear();
  auto found = [self = Ref<GrpcConnector>(this), id = attempt_](Result<std::vector<Endpoint>> all) {
    if (self->attempt_ != id) return;
    if (!all) return self->Finish(all.error());
    self->addresses_ = std::move(*all);
    self->Next();
  };
  if (unix_socket_.empty()) return loop_.Resolve(url_.host, url_.port, std::move(found));
  Endpoint to;
  to.family = Endpoint::Family::kUnix;
  to.path = unix_socket_;
  loop_.Post([found, to] { found(std::vector<Endpoint>{to}); });
}

void GrpcConnector::Cancel() {
  ++attempt_;
  loop_.Cancel(next_);
  next_ = 0;
  stream_.Close();
  done_ = nullptr;
}

void GrpcConnector::Next() {
  loop_.Cancel(next_);
  next_ = 0;
  stream_.Close();
  if (url_.tls && !tls_)
    return Finish(Status{Code::kInvalidArgument, "there are no TLS settings for https"}, true);
  while (address_ < addresses_.size()) {
    const Endpoint& to = addresses_[address_++];
    auto made = Stream::Connect(loop_, to, url_.tls ? tls_ : nullptr, url_.host, Stream::Protocol::kHttp2);
    if (!made) {
      if (made.error().code == Code::kInvalidArgument && url_.tls) return Finish(made.error(), true);
      last_error_ = made.error().detail;
      continue;
    }
    stream_ = std::move(*made);
    stream_.SetHandler(this);
    stream_.WaitWritable();
    if (address_ == addresses_.size()) return;
    next_ = loop_.After(timeout_ / static_cast<int64_t>(addresses_.size() + 1),
                        [self = Ref<GrpcConnector>(this), id = attempt_] {
                          if (self->attempt_ == id) self->Next();
                        });
    return;
  }
  Finish(Status{Code::kUnavailable, last_error_.empty() ? "no address" : last_error_});
}

void GrpcConnector::OnWritable() {
  Ref<GrpcConnector> self(this);
  // Writing nothing tells whether there is a connection.
  const IoResult wrote = stream_.WriteSome({});
  if (wrote.outcome == Outcome::kWouldBlock) return stream_.WaitWritable();
  if (wrote.outcome == Outcome::kOk) return Finish(std::move(stream_));
  last_error_ = "connect " + addresses_[address_ - 1].ToString() + ": " + stream_.error();
  Next();
}

void GrpcConnector::Finish(Result<Stream> result, bool tls) {
  loop_.Cancel(next_);
  next_ = 0;
  ++attempt_;
  if (result) result->SetHandler(nullptr);
  Done done = std::exchange(done_, nullptr);
  done(std::move(result), tls);
}

}  // namespace gpulens
