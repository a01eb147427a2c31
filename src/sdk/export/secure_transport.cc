// OTLP over TLS and OTLP/gRPC: a file of its own, so that only programs that use them link OpenSSL and
// nghttp2.
#include <gpulens/export.h>

#include <mutex>

#include "base/result.h"
#include "net/client/http_client.h"
#include "net/grpc/grpc_client.h"
#include "net/io_loop.h"
#include "sdk/export/otlp_plan.h"

namespace gpulens::sdk {
namespace {

constexpr std::string_view kExport = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export";

// Runs a loop for each request on the exporter's thread: no further thread exists, and between requests a
// fork finds no loop.
class SecureTransport : public OtlpTransport {
 public:
  SecureTransport(OtlpPlan plan, std::shared_ptr<const TlsContext> tls)
      : plan_(std::move(plan)), tls_(std::move(tls)) {}

  OtlpDelivery Send(std::shared_ptr<const std::string> request, Duration timeout) override {
    IoLoop loop;
    {
      std::lock_guard lock(mutex_);
      if (cut_) return {{Code::kUnavailable, "cancelled"}};
      loop_ = &loop;
    }
    OtlpDelivery out{{Code::kUnavailable, "cancelled"}};
    Query(loop, std::move(request), timeout, out);
    std::lock_guard lock(mutex_);
    loop_ = nullptr;
    return out;
  }

  void Cut() noexcept override {
    std::lock_guard lock(mutex_);
    cut_ = true;
    if (loop_) loop_->Stop();
  }
  // Descriptors of a loop stay open in a child forked during a request.
  void LeaveBehind() noexcept override {}
  std::string address() const override { return plan_.url.Shown(); }

 protected:
  // Runs `loop` until the answer is in `out`, or it is stopped.
  virtual void Query(IoLoop& loop, std::shared_ptr<const std::string> request, Duration timeout,
                     OtlpDelivery& out) = 0;

  const OtlpPlan plan_;
  const std::shared_ptr<const TlsContext> tls_;

 private:
  std::mutex mutex_;  // guards what follows
  IoLoop* loop_ = nullptr;
  bool cut_ = false;
};

class HttpTransport final : public SecureTransport {
 public:
  using SecureTransport::SecureTransport;

 private:
  void Query(IoLoop& loop, std::shared_ptr<const std::string> request, Duration timeout,
             OtlpDelivery& out) override {
    HttpClient client(loop);
    HttpTarget target{.url = plan_.url, .unix_socket = {}, .limits = {}};
    target.limits.body_bytes = 64 << 10;
    const auto channel = client.Open(std::move(target));
    const std::string headers = "Content-Type: application/x-protobuf\r\n" + plan_.headers;
    loop.Post([&] {
      HttpPost post{
          .headers = headers, .body = std::move(request), .tls = tls_, .timeout = timeout, .buffer = {}};
      channel->Post(std::move(post), [&](HttpReply& reply) {
        const bool answered = reply.failure == HttpFailure::kNone || reply.failure == HttpFailure::kStatus ||
                              reply.failure == HttpFailure::kAuth;
        if (answered)
          out = ValidateOtlpAnswer(reply.status, reply.body, reply.retry_after, RealClock().Now());
        else out = {{HttpFailureCode(reply.failure), reply.detail}};
        loop.Stop();
      });
    });
    loop.Run();
  }
};

class GrpcTransport final : public SecureTransport {
 public:
  using SecureTransport::SecureTransport;

 private:
  static OtlpDelivery Validate(const GrpcReply& reply) {
    if (reply.code == GrpcCode::kOk) return {ValidateOtlpSuccess(reply.answer)};
    std::string why = std::string(GrpcCodeName(reply.code)) + ": " + reply.message;
    if (reply.failure != HttpFailure::kNone) return {{HttpFailureCode(reply.failure), std::move(why)}};
    const bool later = reply.code == GrpcCode::kUnavailable || reply.code == GrpcCode::kResourceExhausted;
    return {{later ? Code::kExhausted : Code::kInvalidArgument, std::move(why)},
            ReadGrpcRetryInfo(reply.details).value_or(Duration(0))};
  }

  void Query(IoLoop& loop, std::shared_ptr<const std::string> request, Duration timeout,
             OtlpDelivery& out) override {
    GrpcClient client(loop);
    const auto channel = client.Open({.url = plan_.url, .unix_socket = {}});
    loop.Post([&] {
      channel->Call({.path = kExport,
                     .headers = plan_.headers,
                     .message = std::move(request),
                     .tls = tls_,
                     .timeout = timeout},
                    [&](GrpcReply& reply) {
                      out = Validate(reply);
                      loop.Stop();
                    });
    });
    loop.Run();
  }
};

}  // namespace

Result<std::unique_ptr<OtlpTransport>> MakeSecureTransport(const OtlpPlan& plan) {
  std::shared_ptr<const TlsContext> tls;
  if (plan.url.tls) {
    TlsClientOptions options;
    options.ca.file = plan.ca_file;
    options.certificate.file = plan.client_certificate_file;
    options.key.file = plan.client_key_file;
    ASSIGN_OR_RETURN(tls, TlsContext::Client(options));
  }
  if (plan.grpc) return std::unique_ptr<OtlpTransport>(std::make_unique<GrpcTransport>(plan, std::move(tls)));
  return std::unique_ptr<OtlpTransport>(std::make_unique<HttpTransport>(plan, std::move(tls)));
}

void LinkSecureTransport() noexcept { SetSecureTransport(&MakeSecureTransport); }

}  // namespace gpulens::sdk

namespace gpulens {

Result<Exporter> ExportOtlp(const OtlpOptions& options, Registry& registry) {
  sdk::LinkSecureTransport();
  return sdk::StartOtlp(options, registry);
}

}  // namespace gpulens
