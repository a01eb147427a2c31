// One target whose page is asked for again and again (redirects on the same server are followed): what its
// configuration means, the request, what may go wrong on the way, and the parser that follows the page. What
// the page means is the matter of a PageUser.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

#include "net/client/http_client.h"
#include "plugins/plugin.h"
#include "plugins/remote_access.h"
#include "scrape/scrape_record.h"
#include "wire/exposition/exposition_page.h"

namespace gpulens {

// Turns a page that was read into values.
class PageUser {
 public:
  virtual ~PageUser() = default;
  // After an Update of the page that read something. `body` is what it read; not `complete`: what is missing
  // on it is left as it was. A Status that is not ok says that the page is none of this user's; what was set
  // is published all the same.
  virtual Status Write(std::string_view body, ExpositionFormat format, bool complete, FrameWriter& out) = 0;
};

// The fields that ask for an exposition page, best format first.
inline constexpr std::string_view kAcceptFields =
    "Accept: application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.9,"
    "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.8,text/plain;version=0.0.4;q=0.7,*/*;q=0.1\r\n";

// A bare host means its /metrics, as everywhere.
Result<HttpUrl> TargetUrl(const Config& target);

// Whom its own families speak of: the attributes of the configuration, and `name` as target.
EntityRef TargetEntity(const Config& target, std::string_view name);

// Refuses what is wrong with one target.
void CheckTarget(const Config& target, ConfigFaults& faults);

// The name of a target: as configured, else host and port of its URL.
std::string TargetName(const Config& target);
// Returns the first of `name`, name-2, name-3, … that is not in `taken`, and adds it there.
std::string TakeFreeName(const std::string& name, std::set<std::string>& taken);

// Fetch belongs on the I/O loop, the rest inside its instance's run: not thread-safe.
class PageTarget {
 public:
  struct Options {
    std::string name;       // the target attribute of its self-metrics, and the subject of its log lines
    bool optional = false;  // its self-metrics begin with its first answer
    // Asked instead where the URL's path is not found (404), and from then on; empty: nothing is.
    std::string other_path = {};
  };

  // kInvalidArgument when options contradict each other, kUnavailable without a network.
  static Result<std::unique_ptr<PageTarget>> Make(const Config& target, Options options, Env& env);

  // The Status is always ok: what goes wrong is told by Collect, which runs all the same.
  void Fetch(Instant deadline, std::function<void(Status)> done);
  // Reads what came, has `user` write it, and writes what the scrape was like.
  Status Collect(PageUser& user, FrameWriter& out);

  const ScrapedPage& page() const noexcept { return page_; }
  const std::string& url() const noexcept { return url_; }
  const RemoteAccess& access() const noexcept { return access_; }
  bool answered() const noexcept { return answered_; }
  // How many families no table knows; a PageUser tells it while it writes.
  void SetUnknownFamilies(size_t count) noexcept { record_.UnknownFamilies(count); }
  // What of the page is not passed on; likewise, and once before the first Collect.
  void SetLosses(const SeriesLosses& losses) noexcept { record_.Losses(losses); }

 private:
  // How one scrape ended.
  struct Outcome {
    size_t failure = 0;  // HttpFailure or ScrapeFailure; 0: a page was read
    Status status;
  };

  PageTarget(const Config& target, const HttpUrl& url, RemoteAccess access, Options options, Env& env);
  void AddTimeout(Duration timeout);
  // One scrape: all of its requests.
  struct Request {
    Duration timeout{};
    bool last = false;  // no other path is left to ask
    int redirects = 0;  // followed so far
  };
  std::unique_ptr<HttpChannel> Open(const std::string& path);
  void Query(HttpChannel& channel, Request request, std::function<void(Status)> done);
  void Answered(HttpReply& reply, Request request, std::function<void(Status)> done);
  Outcome Read(PageUser& user, FrameWriter& out);
  Outcome ReadPage(std::string_view body, ExpositionFormat format, PageUser& user, FrameWriter& out);
  void Complain() const;

  const Clock& clock_;
  HttpClient& client_;
  const Options options_;
  const std::string url_;
  HttpTarget http_;  // as configured
  const size_t max_body_;
  const Duration timeout_;
  RemoteAccess access_;
  Status accessible_;
  ScrapedPage page_;
  ScrapeRecord record_;
  Instant started_, finished_;
  bool answered_ = false;
  std::string headers_, body_, unpacked_;
  HttpReply reply_;
  size_t at_ = 0;  // which of the channels is asked first
  // The URL's, and that of its other path; and where the server last sent us. Last: they end before what
  // their callbacks use.
  std::vector<std::unique_ptr<HttpChannel>> channels_;
  HttpUrl redirect_url_;
  std::unique_ptr<HttpChannel> redirect_;
};

}  // namespace gpulens
