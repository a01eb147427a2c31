// Passes on the pages of other exporters: any Prometheus endpoint, read by our own parser.

#include <algorithm>
#include <charconv>

#include "base/log.h"
#include "base/result.h"
#include "base/text.h"
#include "catalog/self_io.h"
#include "collectors/scrape/page_series.h"
#include "collectors/scrape/scrape_record.h"
#include "collectors/scrape/target_access.h"
#include "net/client/http_client.h"
#include "pipeline/plugin.h"
#include "wire/gzip.h"

namespace gpulens {
namespace {

using std::chrono::seconds;

constexpr Duration kLongestDefaultTimeout = seconds(10);
// What is left of a run's time for reading the page once it has come.
constexpr Duration kLongestReserve = std::chrono::milliseconds(250);
// A larger buffer goes back to the machine between scrapes.
constexpr size_t kKeptBuffer = 256u << 10;

// How one scrape ended.
struct Outcome {
  size_t failure = 0;  // HttpFailure or ScrapeFailure; 0: a page was read
  Status status;
};

Outcome Failed(ScrapeFailure failure, Status status) {
  return {static_cast<size_t>(failure), std::move(status)};
}

std::string Printable(std::string_view text) {
  std::string out;
  AppendPrintable(out, text);
  return out;
}

EntityRef MakeTarget(const Config& config) {
  std::vector<AttributeSet::Attribute> attributes;
  for (const auto& [key, value] : config.TextMap("attributes")) {
    attributes.push_back({key, std::string_view(value)});
  }
  attributes.push_back({"target", std::string_view(config.Text("name"))});
  return MakeRef<Entity>("target", AttributeSet(std::span<const AttributeSet::Attribute>(attributes)));
}

void Release(std::string& buffer) {
  if (buffer.capacity() > kKeptBuffer) std::string().swap(buffer);
}

class ScrapeCollector final : public Collector {
 public:
  ScrapeCollector(const Config& config, const HttpUrl& url, TargetAccess access, Env& env)
      : clock_(*env.clock),
        name_(config.Text("name")),
        url_(url.ToString()),
        max_body_(config.Size("max_body")),
        timeout_(TimeoutOf(config)),
        access_(std::move(access)),
        page_(LimitsOf(config)),
        series_(page_, MakeTarget(config)),
        record_(name_, url_) {
    HttpTarget target{url, config.Text("unix_socket"), {}};
    target.limits.body_bytes = max_body_;
    channel_ = env.http->Open(std::move(target));
    accessible_ = access_.Refresh();
  }

  bool fetches() const noexcept override { return true; }

  // What goes wrong here is told by Collect, which runs all the same: `up` must be written.
  void Fetch(Instant deadline, std::function<void(Status)> done) override {
    started_ = clock_.Now();
    if (!accessible_) {
      finished_ = started_;
      return done(Ok());
    }
    Duration left = std::min(timeout_, deadline - started_);
    Duration timeout = left - std::min(left / 10, kLongestReserve);
    headers_ = access_.headers();
    AddTimeout(timeout);
    HttpGet get{headers_, access_.tls(), timeout, std::move(body_)};
    channel_->Get(std::move(get), [this, done = std::move(done)](HttpReply& reply) {
      std::swap(reply_, reply);
      finished_ = clock_.Now();
      done(Ok());
    });
  }

  Status Collect(FrameWriter& out) override {
    record_.Prepare(out.table());
    Outcome outcome;
    if (accessible_) outcome = Read(out);
    else outcome = Failed(ScrapeFailure::kCredentials, accessible_);
    if (outcome.failure != 0) record_.Failed(outcome.failure);
    record_.Write(outcome.failure == 0, finished_ - started_, out);
    body_ = std::move(reply_.body);
    Release(body_);
    Release(unpacked_);
    accessible_ = access_.Refresh();
    if (!outcome.status) outcome.status.detail = url_ + ": " + outcome.status.detail;
    return outcome.status;
  }

 private:
  static Duration TimeoutOf(const Config& config) {
    Duration set = config.Time("timeout");
    return set.count() > 0 ? set : std::min(config.Time("interval"), kLongestDefaultTimeout);
  }
  static ExpositionLimits LimitsOf(const Config& config) {
    ExpositionLimits limits;
    limits.page_bytes = config.Size("max_body");
    limits.samples = static_cast<size_t>(config.Int("max_samples"));
    return limits;
  }

  void AddTimeout(Duration timeout) {
    char text[32];
    double seconds_left = std::chrono::duration<double>(timeout).count();
    auto [end, error] = std::to_chars(text, text + sizeof text, seconds_left);
    headers_ += "X-Prometheus-Scrape-Timeout-Seconds: ";
    headers_.append(text, end);
    headers_ += "\r\n";
  }

  Outcome Read(FrameWriter& out) {
    if (reply_.failure != HttpFailure::kNone) {
      return {static_cast<size_t>(reply_.failure), {HttpFailureCode(reply_.failure), reply_.detail}};
    }
    auto format = DetectExpositionFormat(reply_.content_type);
    if (!format) {
      return Failed(
          ScrapeFailure::kContentType,
          {Code::kDataLoss, "answers with " + Printable(reply_.content_type) + ", which is no metrics page"});
    }
    std::string_view body = reply_.body;
    if (reply_.gzip) {
      Status status = Gunzip(reply_.body, max_body_, unpacked_);
      if (!status) {
        auto failure = status.code == Code::kExhausted ? HttpFailure::kTooLarge : HttpFailure::kProtocol;
        return {static_cast<size_t>(failure), std::move(status)};
      }
      body = unpacked_;
    }
    return ReadPage(body, *format, out);
  }

  Outcome ReadPage(std::string_view body, ExpositionFormat format, FrameWriter& out) {
    Status status = page_.Update(body, format);
    if (status.code == Code::kExhausted) {
      return {static_cast<size_t>(HttpFailure::kTooLarge), std::move(status)};
    }
    out.ReadAt(finished_);
    series_.Write(body, format, status.ok(), out);
    record_.Page(page_.report(), body.size());
    Complain();
    if (!status) return Failed(ScrapeFailure::kPage, std::move(status));
    return {};
  }

  // Lines that were passed over must be seen somewhere, once in a while.
  void Complain() const {
    const ExpositionReport& report = page_.report();
    if (report.bad_lines > 0 && !page_.bad_examples().empty()) {
      const auto& example = page_.bad_examples().front();
      Log(LogLevel::kWarn, "scrape", "bad_lines",
          url_ + ": " + std::to_string(report.bad_lines) + " lines cannot be read, the first is line " +
              std::to_string(example.line) + " (" + std::string(LineErrorName(example.error)) +
              "): " + Printable(example.excerpt),
          name_);
    }
    if (report.samples_over_limit > 0) {
      Log(LogLevel::kWarn, "scrape", "too_many_samples",
          url_ + ": " + std::to_string(report.samples_over_limit) +
              " samples above max_samples are left out; raise it, or ask the target for less",
          name_);
    }
  }

  const Clock& clock_;
  const std::string name_, url_;
  const size_t max_body_;
  const Duration timeout_;
  TargetAccess access_;
  Status accessible_;
  ScrapedPage page_;
  PageSeries series_;
  ScrapeRecord record_;
  Instant started_, finished_;
  std::string headers_, body_, unpacked_;
  HttpReply reply_;
  std::unique_ptr<HttpChannel> channel_;  // last: ends before what its callback uses
};

// A bare host means its metrics, as everywhere.
Result<HttpUrl> UrlOf(const Config& target) {
  ASSIGN_OR_RETURN(HttpUrl url, ParseHttpUrl(target.Text("url")));
  if (!url.has_path && url.target == "/") {
    url.target = "/metrics";
    url.has_path = true;
  }
  return url;
}

Result<std::unique_ptr<Collector>> Create(const Config& config, Env& env) {
  if (!env.http) return Status{Code::kUnavailable, "there is no network here"};
  ASSIGN_OR_RETURN(HttpUrl url, UrlOf(config));
  ASSIGN_OR_RETURN(TargetAccess access, TargetAccess::Make(config, url));
  return std::unique_ptr<Collector>(std::make_unique<ScrapeCollector>(config, url, std::move(access), env));
}

std::vector<Finding> Probe(const Config& config, Env&) {
  std::vector<Finding> findings;
  for (const Config& target : config.Groups("targets")) {
    auto url = UrlOf(target);
    std::string subject = "scrape/" + target.Text("name");
    if (url) findings.push_back({Finding::kFound, subject, "configured: " + url->ToString(), "", ""});
    else findings.push_back({Finding::kBroken, subject, "", url.error().detail, ""});
  }
  if (findings.empty()) {
    findings.push_back(
        {Finding::kNotHere, "scrape", "", "no target is configured",
         "collectors: {scrape: {targets: [{name: node, url: \"http://127.0.0.1:9100/metrics\"}]}}"});
  }
  return findings;
}

constexpr OptionSpec kTlsOptions[] = {
    {.key = "ca_file", .help = "Who may have signed the target's certificate; default: the machine's CAs."},
    {.key = "cert_file", .help = "Our certificate, for a target that asks for one."},
    {.key = "key_file", .help = "Its key."},
    {.key = "server_name", .help = "The name to ask for and to check; default: the host of the URL."},
    {.key = "insecure_skip_verify",
     .type = OptionType::kBool,
     .fallback = "false",
     .help = "Takes any certificate: anyone on the way can read and change what is scraped."},
};

constexpr OptionSpec kTargetOptions[] = {
    {.key = "name", .help = "The target attribute of its series.", .required = true},
    {.key = "url",
     .type = OptionType::kUrl,
     .help = "Where its page is; a bare host means /metrics.",
     .required = true},
    {.key = "unix_socket", .help = "Connect to this socket file; the URL then names only host and path."},
    {.key = "interval", .type = OptionType::kTime, .fallback = "15s", .help = "Between scrapes.", .min = 0.1},
    {.key = "timeout",
     .type = OptionType::kTime,
     .help = "For one scrape; default: the interval, at most 10s."},
    {.key = "ttl",
     .type = OptionType::kTime,
     .help = "How long values of an unreachable target are shown; default: two intervals."},
    {.key = "username", .help = "For basic authentication."},
    {.key = "password", .help = "Its password."},
    {.key = "password_file", .help = "A file with the password; read again when it changes."},
    {.key = "bearer_token", .help = "Sent as Authorization: Bearer."},
    {.key = "bearer_token_file", .help = "A file with the token; read again when it changes."},
    {.key = "headers", .type = OptionType::kTextMap, .help = "More header fields of the request."},
    {.key = "tls", .type = OptionType::kGroup, .help = "For https.", .children = kTlsOptions},
    {.key = "max_body",
     .type = OptionType::kSize,
     .fallback = "64MiB",
     .help = "The largest page, packed or unpacked.",
     .min = 1024,
     .max = 1 << 30},
    {.key = "max_samples",
     .type = OptionType::kInt,
     .fallback = "100000",
     .help = "Samples of one page; those above are left out and logged.",
     .min = 1,
     .max = 10'000'000},
    {.key = "attributes", .type = OptionType::kTextMap, .help = "More attributes of its series."},
};

constexpr OptionSpec kOptions[] = {
    {.key = "targets",
     .type = OptionType::kGroups,
     .help = "The endpoints to read.",
     .children = kTargetOptions},
};

constexpr const MetricDesc* kMetrics[] = {
    &kSelfScrapeUp,     &kSelfScrapeDuration,    &kSelfScrapeSamples, &kSelfScrapeSize,
    &kSelfScrapeErrors, &kSelfScrapeParseErrors, &kSelfScrapeInfo,
};

}  // namespace

extern const CollectorSpec scrape_collector;
const CollectorSpec scrape_collector{.name = "scrape",
                                     .help = "Prometheus endpoints of other programs, passed on.",
                                     .period = seconds(15),
                                     .ttl = seconds(30),
                                     .options = kOptions,
                                     .metrics = kMetrics,
                                     .instances_option = "targets",
                                     .scraped = true,
                                     .create = &Create,
                                     .probe = &Probe};

}  // namespace gpulens
