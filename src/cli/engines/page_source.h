// One metrics page for a command: from a file, standard input or a URL.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <gpulens/status.h>

#include "base/clock.h"
#include "wire/exposition/exposition_format.h"

namespace gpulens {

struct PageText {
  std::string body;  // unpacked
  ExpositionFormat format = ExpositionFormat::kText004;
  Instant read_at;
};

// Used from one thread, which waits.
class PageSource {
 public:
  struct Options {
    std::string where;                 // "-", a URL or a file
    std::vector<std::string> headers;  // "Name: value"
    std::string ca_file;
    bool insecure_skip_verify = false;
    Duration timeout = std::chrono::seconds(10);
  };
  // The largest page in bytes, compressed or not.
  static constexpr size_t kMaxBytes = 64u << 20;

  // kInvalidArgument: the options cannot be used, the detail names the one. Asks nothing yet.
  static Result<std::unique_ptr<PageSource>> Open(const Options& options);
  virtual ~PageSource() = default;

  // The page as it is now; a connection is kept for the next Read. An error has a sentence that says what is
  // wrong and what to do.
  virtual Result<PageText> Read() = 0;
  // For people, without passwords.
  virtual std::string name() const = 0;
  // Whether another Read gives a later page.
  virtual bool lives() const = 0;
};

// What stands in a file, by its bytes. kDataLoss, with a sentence, for HTML, JSON and an empty page.
Result<ExpositionFormat> GuessPageFormat(std::string_view body);

}  // namespace gpulens
