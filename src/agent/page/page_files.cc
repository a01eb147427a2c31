#include "agent/page/page_files.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "base/files.h"
#include "base/hash.h"
#include "base/parse.h"
#include "wire/packing.h"

namespace gpulens {
namespace {

constexpr PageFile kPageFiles[] = {
#include "agent/page_files.inc"
};

constexpr std::pair<std::string_view, std::string_view> kTypes[] = {{".css", "text/css; charset=utf-8"},
                                                                    {".js", "text/javascript; charset=utf-8"},
                                                                    {".svg", "image/svg+xml"}};

// The largest file that a folder may have.
constexpr size_t kMostBytes = 4 << 20;

// Empty: the agent serves no such files.
std::string_view TypeOf(std::string_view name) {
  for (const auto& [ending, type] : kTypes) {
    if (name.ends_with(ending)) return type;
  }
  return {};
}

// No folder, and nothing but what tools/embed_page.py allows.
bool IsPageName(std::string_view name) {
  const std::string_view ending = name.substr(std::min(name.find('.'), name.size()));
  const std::string_view stem = name.substr(0, name.size() - ending.size());
  return !stem.empty() && name.size() <= 64 && TypeOf(ending) == TypeOf(name) && !TypeOf(ending).empty() &&
         std::ranges::all_of(
             stem, [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; });
}

// Compares as RFC 9110 §13.1.2 wants it: weakly, and "*" is any.
bool HasTag(std::string_view if_none_match, std::string_view tag) {
  while (!if_none_match.empty()) {
    std::string_view each = Trim(TakeUntil(if_none_match, ','));
    if (each.starts_with("W/")) each.remove_prefix(2);
    if (each == tag || each == "*") return true;
  }
  return false;
}

// `gzip`: `body` is packed.
HttpResponse Answer(std::string_view name, std::string_view tag, bool gzip, std::string_view if_none_match,
                    SharedBytes body) {
  // Bytes that differ have different tags, also where they are of one file.
  const std::string whole = "\"" + std::string(tag) + (gzip ? "-gzip\"" : "\"");
  HttpResponse response;
  response.content_type = TypeOf(name);
  response.AddHeader("ETag", whole);
  response.AddHeader("Cache-Control", "no-cache");
  response.AddHeader("Vary", "Accept-Encoding");
  response.AddHeader("Cross-Origin-Resource-Policy", "same-origin");
  response.AddHeader("Content-Security-Policy", kPagePolicy);
  if (HasTag(if_none_match, whole)) {
    response.status = 304;
    response.content_type.clear();
    return response;
  }
  if (gzip) response.AddHeader("Content-Encoding", "gzip");
  response.body = std::move(body);
  return response;
}

}  // namespace

const PageFile* FindPageFile(std::string_view name) noexcept {
  const auto* found = std::ranges::find(kPageFiles, name, &PageFile::name);
  return found == std::end(kPageFiles) ? nullptr : found;
}

HttpResponse PageFiles::Get(std::string_view name, std::string_view accept_encoding,
                            std::string_view if_none_match) const {
  if (!IsPageName(name)) return HttpResponse::Text(404, "not found");
  if (!folder_.empty()) {
    if (Result<std::string> text = ReadFile(folder_ + "/" + std::string(name), kMostBytes); text) {
      Sha256 hash;
      hash.Add(*text);
      return Answer(name, hash.Finish().substr(0, 16), false, if_none_match, SharedBytes(*std::move(text)));
    }
  }
  const PageFile* file = FindPageFile(name);
  if (!file) return HttpResponse::Text(404, "not found");
  if (AcceptsGzip(accept_encoding))
    return Answer(name, file->tag, true, if_none_match, SharedBytes(nullptr, file->gzip));
  auto text = std::make_shared<std::string>();
  if (!Gunzip(file->gzip, file->size, *text)) return HttpResponse::Text(500, "the file is damaged");
  return Answer(name, file->tag, false, if_none_match,
                SharedBytes(std::shared_ptr<const std::string>(std::move(text))));
}

}  // namespace gpulens
