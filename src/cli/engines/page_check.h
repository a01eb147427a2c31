// Reads a metrics page and checks its families against the tables of engines: `gpulens engines check`.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

#include "base/clock.h"
#include "cli/url/url_request.h"
#include "scrape/engine/engine_families.h"
#include "wire/exposition/exposition_format.h"
#include "wire/exposition/exposition_page.h"

namespace gpulens {

struct PageText {
  std::string body;  // unpacked
  ExpositionFormat format = ExpositionFormat::kText004;
  Instant read_at;
};

// A page to check. Used from one thread; calls block.
class PageSource {
 public:
  struct Options : UrlOptions {
    std::string where;  // "-", a URL or a file
    Duration timeout = std::chrono::seconds(10);
  };
  // The largest page in bytes, compressed or not.
  static constexpr size_t kMaxBytes = 64u << 20;

  // kInvalidArgument: the options cannot be used, the detail names the one. Does not connect yet.
  static Result<std::unique_ptr<PageSource>> Open(const Options& options);
  virtual ~PageSource() = default;

  // Reads the current page; keeps a connection for the next Read. An error has a sentence on what is wrong
  // and what to do.
  virtual Result<PageText> Read() = 0;
  // Its name for messages, without passwords.
  virtual std::string name() const = 0;
  // Whether a later Read may return another page.
  virtual bool lives() const = 0;
};

// Detects the format of a file by its bytes. kDataLoss, with a sentence, for HTML, JSON and an empty page.
Result<ExpositionFormat> GuessPageFormat(std::string_view body);

struct CheckedFamily {
  std::string name;
  engine_page::KnownFamily::Kind kind = engine_page::KnownFamily::kUnknown;
  std::string_view type;                  // of the page, "untyped" without a TYPE
  std::string_view engine;                // whose table has it; empty: the table of any page, or none
  std::vector<std::string_view> metrics;  // kMapped: what it becomes
  std::string text;      // kAlias: of which family. kIgnored: why. kUnknown: a row for its table
  std::string expected;  // the types that the table knows, where the page's is another one
};

struct PageCheck {
  std::string source;
  std::vector<const engine_page::Engine*> engines;  // recognised
  std::vector<CheckedFamily> families;              // in the order of their names
  size_t samples = 0, bad_lines = 0, duplicates = 0, over_limit = 0;
  std::string first_bad;  // of the bad lines, in words
  bool cut = false;       // the page ends too early

  size_t Count(engine_page::KnownFamily::Kind kind) const noexcept;
};

// Checks the families of `page`, to which `families` was updated.
PageCheck CheckPage(std::string source, const ScrapedPage& page, const engine_page::PageFamilies& families);

std::string CheckText(const PageCheck& check);
std::string CheckJson(const PageCheck& check);
// Returns the exit code: 0 every family is known, 1 some are unknown, or no engine is recognised.
int CheckResult(const PageCheck& check) noexcept;

}  // namespace gpulens
