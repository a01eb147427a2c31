#include "cli/engines/page_source.h"

#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <optional>

#include "base/files.h"
#include "base/parse.h"
#include "base/result.h"
#include "base/text.h"
#include "net/client/http_client.h"
#include "net/io_loop.h"
#include "net/tls.h"
#include "scrape/page_target.h"
#include "wire/packing.h"

namespace gpulens {
namespace {

constexpr std::string_view kPaths =
    "; most engines serve /metrics, trtllm-serve /prometheus/metrics, NIM /v1/metrics";

std::string Printable(std::string_view text) {
  std::string out;
  AppendPrintable(out, text);
  return out;
}

Result<std::string> ReadStdin() {
  std::string body;
  char block[64 << 10];
  for (;;) {
    ssize_t got = ::read(STDIN_FILENO, block, sizeof block);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ErrnoStatus("read standard input", errno);
    if (got == 0) return body;
    body.append(block, static_cast<size_t>(got));
    if (body.size() > PageSource::kMaxBytes)
      return Status{Code::kExhausted, "more than 64 MiB on standard input"};
  }
}

class FilePage final : public PageSource {
 public:
  explicit FilePage(std::string path) : path_(std::move(path)) {}

  Result<PageText> Read() override {
    auto body = path_ == "-" ? ReadStdin() : ReadFile(path_, kMaxBytes);
    if (!body) {
      std::string hint = path_.find(':') != path_.npos ? "; a URL begins with http://" : "";
      return Status{body.error().code, body.error().detail + hint};
    }
    if (body->starts_with("\x1f\x8b")) {
      std::string unpacked;
      RETURN_IF_ERROR(Gunzip(*body, kMaxBytes, unpacked));
      *body = std::move(unpacked);
    }
    ASSIGN_OR_RETURN(ExpositionFormat format, GuessPageFormat(*body));
    return PageText{*std::move(body), format, RealClock().Now()};
  }
  std::string name() const override { return path_ == "-" ? "standard input" : path_; }
  bool lives() const override { return false; }

 private:
  const std::string path_;
};

class UrlPage final : public PageSource {
 public:
  UrlPage(const HttpUrl& url, std::string headers, std::shared_ptr<const TlsContext> tls, Duration timeout)
      : name_(url.Shown()), headers_(std::move(headers)), tls_(std::move(tls)), timeout_(timeout) {
    HttpTarget target{url, {}, {}};
    target.limits.body_bytes = kMaxBytes;
    loop_.Start();
    channel_ = client_.Open(std::move(target));
  }
  ~UrlPage() override {
    loop_.Call([this] { channel_.reset(); });
    loop_.Stop();
  }

  Result<PageText> Read() override {
    HttpReply reply = Query();
    if (reply.failure != HttpFailure::kNone) return Failed(reply);
    auto format = DetectExpositionFormat(reply.content_type);
    if (!format) {
      return Status{Code::kDataLoss, "answers with " + Printable(reply.content_type) +
                                         ", which is not a metrics page" + std::string(kPaths)};
    }
    PageText page{{}, *format, RealClock().Now()};
    if (reply.gzip) RETURN_IF_ERROR(Gunzip(reply.body, kMaxBytes, page.body));
    else page.body = std::move(reply.body);
    // A page of HTML that calls itself plain text, and an empty one.
    if (auto guess = GuessPageFormat(page.body); !guess) return guess.error();
    return page;
  }
  std::string name() const override { return name_; }
  bool lives() const override { return true; }

 private:
  HttpReply Query() {
    std::mutex mutex;
    std::condition_variable came;
    std::optional<HttpReply> got;
    loop_.Call([&] {
      channel_->Get({headers_, tls_, timeout_, {}}, [&](HttpReply& reply) {
        std::lock_guard lock(mutex);
        got = std::move(reply);
        came.notify_one();
      });
    });
    std::unique_lock lock(mutex);
    came.wait(lock, [&] { return got.has_value(); });
    return *std::move(got);
  }
  static Status Failed(const HttpReply& reply) {
    std::string text = Printable(reply.detail);
    if (reply.status == 404) text += kPaths;
    if (reply.failure == HttpFailure::kConnect) text += "; is the engine running, and is this its port?";
    if (reply.failure == HttpFailure::kAuth)
      text +=
          "; pass a token or password with --header \"Authorization: Bearer …\" or http://user:password@…";
    if (reply.failure == HttpFailure::kTls) text += "; pass the CA of its certificate with --ca-file";
    if (reply.failure == HttpFailure::kTimeout) text += "; raise --timeout";
    return {HttpFailureCode(reply.failure), text};
  }

  const std::string name_, headers_;
  const std::shared_ptr<const TlsContext> tls_;
  const Duration timeout_;
  IoLoop loop_;
  HttpClient client_{loop_};
  std::unique_ptr<HttpChannel> channel_;
};

Result<std::unique_ptr<PageSource>> OpenUrl(const PageSource::Options& options) {
  auto url = ParseHttpUrl(options.where);
  if (!url) return Status{Code::kInvalidArgument, options.where + ": " + url.error().detail};
  if (!url->has_path && url->target == "/") {
    url->target = "/metrics";
    url->has_path = true;
  }
  std::string headers(kAcceptFields);
  headers += "Accept-Encoding: gzip\r\n";
  if (!url->user.empty() || !url->password.empty()) AddBasicAuth(headers, url->user, url->password);
  for (const std::string& header : options.headers) {
    std::string_view value = header;
    std::string_view field = TakeUntil(value, ':');
    Status status = field.size() == header.size() ? Status{Code::kInvalidArgument, "expected Name: value"}
                                                  : AddRequestField(headers, field, Trim(value));
    if (!status) return Status{Code::kInvalidArgument, "--header " + Printable(field) + ": " + status.detail};
  }
  std::shared_ptr<const TlsContext> tls;
  if (url->tls) {
    TlsClientOptions wanted;
    wanted.ca.file = options.ca_file;
    wanted.insecure_skip_verify = options.insecure_skip_verify;
    auto made = TlsContext::Client(wanted);
    if (!made) return Status{Code::kInvalidArgument, "--ca-file: " + made.error().detail};
    tls = *std::move(made);
  }
  return std::unique_ptr<PageSource>(new UrlPage(*url, std::move(headers), std::move(tls), options.timeout));
}

}  // namespace

Result<std::unique_ptr<PageSource>> PageSource::Open(const Options& options) {
  if (options.where.find("://") != std::string::npos) return OpenUrl(options);
  return std::unique_ptr<PageSource>(new FilePage(options.where));
}

Result<ExpositionFormat> GuessPageFormat(std::string_view body) {
  std::string_view text = Trim(body);
  if (text.empty()) return Status{Code::kDataLoss, "is empty"};
  if (text.front() == '<')
    return Status{Code::kDataLoss, "is HTML, which is not a metrics page" + std::string(kPaths)};
  if (text.front() == '{' || text.front() == '[')
    return Status{Code::kDataLoss, "is JSON, which is not a metrics page" + std::string(kPaths)};
  return text.ends_with("# EOF") ? ExpositionFormat::kOpenMetrics100 : ExpositionFormat::kText004;
}

}  // namespace gpulens
