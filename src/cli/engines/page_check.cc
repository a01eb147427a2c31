#include "cli/engines/page_check.h"

#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <future>

#include "base/files.h"
#include "base/parse.h"
#include "base/result.h"
#include "base/text.h"
#include "cli/common/output.h"
#include "net/client/http_client.h"
#include "net/io_loop.h"
#include "scrape/page_target.h"
#include "wire/json/json_object.h"
#include "wire/packing.h"

namespace gpulens {

namespace {

constexpr std::string_view kPaths =
    "; most engines serve /metrics, trtllm-serve /prometheus/metrics, NIM /v1/metrics";

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
    const auto answer = std::make_shared<std::promise<HttpReply>>();
    loop_.Call([&] {
      channel_->Get({headers_, tls_, timeout_, {}},
                    [answer](HttpReply& reply) { answer->set_value(std::move(reply)); });
    });
    return answer->get_future().get();
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
  ASSIGN_OR_RETURN(UrlRequest request,
                   MakeUrlRequest(*url, std::string(kAcceptFields) + "Accept-Encoding: gzip\r\n", options));
  return std::unique_ptr<PageSource>(
      new UrlPage(*url, std::move(request.fields), std::move(request.tls), options.timeout));
}

using engine_page::Engine;
using engine_page::EngineRow;
using engine_page::KnownFamily;

std::string_view TypeName(const ExpositionFamily& family) noexcept {
  return family.typed ? ExpositionTypeName(family.type) : "untyped";
}

std::string TypesOf(const EngineRow& row) {
  std::string out;
  for (auto type : {ExpositionType::kCounter, ExpositionType::kGauge, ExpositionType::kHistogram,
                    ExpositionType::kSummary, ExpositionType::kUnknown}) {
    if (!row.Takes(type)) continue;
    if (!out.empty()) out += " or ";
    out += type == ExpositionType::kUnknown ? "untyped" : ExpositionTypeName(type);
  }
  return out;
}

std::string ReasonOf(std::span<const EngineRow> rows) {
  for (const EngineRow& row : rows) {
    if (row.use == engine_page::RowUse::kIgnore) return std::string(row.note);
  }
  return {};
}

CheckedFamily Check(const ExpositionFamily& family, const KnownFamily& known) {
  CheckedFamily out;
  out.name = family.name;
  out.kind = known.kind;
  out.type = TypeName(family);
  if (known.engine) out.engine = known.engine->name;
  if (known.other_type) out.expected = TypesOf(known.rows.front());
  switch (known.kind) {
    case KnownFamily::kMapped:
      for (const EngineRow& row : known.rows) {
        if (row.metric && std::ranges::find(out.metrics, row.metric->name) == out.metrics.end())
          out.metrics.push_back(row.metric->name);
      }
      break;
    case KnownFamily::kAlias: out.text = known.rows.front().alias_of; break;
    case KnownFamily::kIgnored: out.text = ReasonOf(known.rows); break;
    case KnownFamily::kUnknown: out.text = engine_page::GuessRow(family); break;
    case KnownFamily::kPass:
    case KnownFamily::kGone: break;
  }
  return out;
}

// Appends the families of one kind.
void AppendSection(std::string& out, const PageCheck& check, KnownFamily::Kind kind, std::string_view head) {
  size_t count = check.Count(kind);
  if (count == 0) return;
  out += "\n" + std::string(head) + ": " + std::to_string(count) + "\n";
  size_t width = 0;
  for (const CheckedFamily& family : check.families) {
    if (family.kind == kind) width = std::max(width, std::min<size_t>(family.name.size(), 60));
  }
  for (const CheckedFamily& family : check.families) {
    if (family.kind != kind) continue;
    if (kind == KnownFamily::kUnknown) {
      // Tabs as in the tables; the name is foreign text.
      for (char c : family.text) {
        if (c == '\t') out += c;
        else AppendPrintable(out, std::string_view(&c, 1));
      }
      out += '\n';
      continue;
    }
    std::string what = family.text + Joined(family.metrics, " ");
    const std::string name = Printable(family.name);
    out += "  " + (what.empty() ? name : Padded(name, width + 2) + what) + "\n";
  }
}

std::string Recognised(const PageCheck& check) {
  std::string out;
  for (const Engine* engine : check.engines) {
    size_t families = static_cast<size_t>(std::ranges::count_if(
        check.families, [&](const CheckedFamily& family) { return family.engine == engine->name; }));
    out += (out.empty() ? "" : ", ") + std::string(engine->name) + " (" + std::string(engine->layer) + ", " +
           Plural(families, "family", "families") + ")";
  }
  return out;
}

void AppendFamily(std::string& out, const CheckedFamily& family) {
  constexpr std::string_view kTextKeys[] = {"", "row", "", "alias_of", "", "reason"};
  JsonObject object(out);
  object.Text("name", family.name);
  object.TextIfAny("type", family.type);
  object.TextIfAny("verdict", engine_page::KindName(family.kind));
  object.TextIfAny("engine", family.engine);
  object.TextIfAny("expected_type", family.expected);
  if (!kTextKeys[family.kind].empty()) object.TextIfAny(kTextKeys[family.kind], family.text);
  if (!family.metrics.empty()) object.Texts("metrics", family.metrics);
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

size_t PageCheck::Count(KnownFamily::Kind kind) const noexcept {
  return static_cast<size_t>(
      std::ranges::count_if(families, [&](const CheckedFamily& family) { return family.kind == kind; }));
}

PageCheck CheckPage(std::string source, const ScrapedPage& page, const engine_page::PageFamilies& families) {
  PageCheck check;
  check.source = std::move(source);
  check.engines.assign(families.engines().begin(), families.engines().end());
  for (size_t i = 0; i < page.families().size(); ++i) {
    if (page.families()[i].alive) check.families.push_back(Check(page.families()[i], families.families()[i]));
  }
  std::ranges::sort(check.families,
                    [](const CheckedFamily& a, const CheckedFamily& b) { return a.name < b.name; });
  const ExpositionReport& report = page.report();
  check.samples = report.samples;
  check.bad_lines = report.bad_lines;
  check.duplicates = report.duplicates;
  check.over_limit = report.samples_over_limit;
  check.cut = report.truncated;
  if (!page.bad_examples().empty()) {
    const auto& bad = page.bad_examples().front();
    check.first_bad = "line " + std::to_string(bad.line) + " (" + std::string(LineErrorName(bad.error)) +
                      "): " + Printable(bad.excerpt);
  }
  return check;
}

std::string CheckText(const PageCheck& check) {
  std::string out = Printable(check.source) + ": " + Plural(check.families.size(), "family", "families") +
                    ", " + Plural(check.samples, "sample", "samples") + "\n";
  out += check.engines.empty() ? "no engine is recognised   list the known ones: gpulens engines list; a "
                                 "page without prefixes needs --engine\n"
                               : "recognised: " + Recognised(check) + "\n";
  if (check.bad_lines > 0)
    out += "cannot be read: " + Plural(check.bad_lines, "line", "lines") + ", the first is " +
           check.first_bad + "\n";
  if (check.duplicates > 0) out += "duplicates: " + Plural(check.duplicates, "sample", "samples") + "\n";
  if (check.over_limit > 0)
    out += "above the limit, not read: " + Plural(check.over_limit, "sample", "samples") + "\n";
  if (check.cut) out += "the page is truncated: OpenMetrics without # EOF\n";
  AppendSection(out, check, KnownFamily::kMapped, "mapped");
  AppendSection(out, check, KnownFamily::kAlias, "skipped, another name of");
  AppendSection(out, check, KnownFamily::kPass, "no role, shown with pass_through");
  AppendSection(out, check, KnownFamily::kIgnored, "ignored");
  AppendSection(out, check, KnownFamily::kUnknown, "unknown, with a row for src/scrape/engine/tables");
  bool first = true;
  for (const CheckedFamily& family : check.families) {
    if (family.expected.empty()) continue;
    if (first) out += "\nwith a TYPE other than the table's:\n";
    first = false;
    out += "  " + Printable(family.name) + " is " + std::string(family.type) + ", expected " +
           family.expected + "\n";
  }
  return out;
}

std::string CheckJson(const PageCheck& check) {
  return JsonDocumentText("gpulens.engines.check/1", [&](JsonObject& root) {
    root.TextIfAny("source", check.source);
    root.List("engines", check.engines, [](std::string& out, const Engine* engine) {
      JsonObject object(out);
      object.Text("name", engine->name);
      object.TextIfAny("layer", engine->layer);
    });
    root.Count("samples", check.samples);
    root.Count("bad_lines", check.bad_lines);
    root.Count("duplicates", check.duplicates);
    root.Count("over_limit", check.over_limit);
    root.Flag("cut", check.cut);
    {
      JsonObject counts(root.Key("counts"));
      for (auto kind : {KnownFamily::kMapped, KnownFamily::kAlias, KnownFamily::kPass, KnownFamily::kIgnored,
                        KnownFamily::kUnknown})
        counts.Count(engine_page::KindName(kind), check.Count(kind));
    }
    root.List("families", check.families, AppendFamily, "\n", "\n");
  });
}

int CheckResult(const PageCheck& check) noexcept {
  return check.engines.empty() || check.Count(KnownFamily::kUnknown) > 0 ? 1 : 0;
}

}  // namespace gpulens
