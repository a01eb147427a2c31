// The files of the web page (src/page, and Debian's dygraphs), compiled into the program.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "net/http/http_server.h"

namespace gpulens {

// Content-Security-Policy of the agent's HTML pages: nothing but this server's own files, and no inline
// script or style.
inline constexpr std::string_view kPagePolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

// The variable that names a folder of files which are served instead of the compiled ones of the same names:
// who works on the page sees a change without a build.
inline constexpr const char* kPageFolderVariable = "GPULENS_PAGE_FOLDER";

struct PageFile {
  std::string_view name;  // "app.js"
  std::string_view tag;   // of the content: hexadecimal digits
  size_t size = 0;        // bytes of the content
  std::string_view gzip;  // the content as one gzip member
};

// Static storage. Null: there is no such file.
const PageFile* FindPageFile(std::string_view name) noexcept;

// Serves the files by their names. Thread-safe.
class PageFiles {
 public:
  // `folder`: see kPageFolderVariable; empty: there is none.
  explicit PageFiles(std::string folder = {}) : folder_(std::move(folder)) {}

  // The answer to a request for `name`, 404 for another one. `accept_encoding` and `if_none_match` are the
  // joined fields of the request. Reads a file where a folder is set; unpacks one for a client that does not
  // take gzip.
  HttpResponse Get(std::string_view name, std::string_view accept_encoding,
                   std::string_view if_none_match) const;

 private:
  const std::string folder_;
};

}  // namespace gpulens
