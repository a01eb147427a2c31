#include "agent/api/api.h"

#include <algorithm>

#include "base/parse.h"
#include "base/result.h"
#include "base/text.h"

namespace gpulens {
namespace {

constexpr size_t kMaxParameters = 64;

// Decodes a part of a query, where + is a blank.
Status Decode(std::string_view text, std::string& out) {
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '+') {
      out += ' ';
    } else if (text[i] == '%') {
      const int high = i + 2 < text.size() ? HexDigit(text[i + 1]) : -1;
      const int low = i + 2 < text.size() ? HexDigit(text[i + 2]) : -1;
      if (high < 0 || low < 0)
        return {Code::kInvalidArgument, "a % in the address is not followed by two digits"};
      out += static_cast<char>(high << 4 | low);
      i += 2;
    } else {
      out += text[i];
    }
  }
  if (!IsUtf8(out)) return {Code::kInvalidArgument, "the address is not UTF-8"};
  return Ok();
}

}  // namespace

Result<ApiRequest> ApiRequest::Parse(std::string_view target) {
  ApiRequest request;
  std::string_view rest = target;
  rest = rest.substr(0, rest.find('#'));
  request.path = TakeUntil(rest, '?');
  while (!rest.empty()) {
    std::string_view value = TakeUntil(rest, '&');
    const std::string_view name = TakeUntil(value, '=');
    if (name.empty()) continue;
    if (request.parameters.size() == kMaxParameters)
      return Status{Code::kInvalidArgument, "more than " + std::to_string(kMaxParameters) + " parameters"};
    auto& [key, text] = request.parameters.emplace_back();
    RETURN_IF_ERROR(Decode(name, key));
    RETURN_IF_ERROR(Decode(value, text));
  }
  return request;
}

const std::string* ApiRequest::Find(std::string_view name) const noexcept {
  const auto found = std::find_if(parameters.rbegin(), parameters.rend(),
                                  [&](const auto& parameter) { return parameter.first == name; });
  return found == parameters.rend() ? nullptr : &found->second;
}

std::vector<std::string_view> ApiRequest::All(std::string_view name) const {
  std::vector<std::string_view> values;
  for (const auto& [key, value] : parameters) {
    if (key == name) values.push_back(value);
  }
  return values;
}

void Api::Add(std::string path, Page page) { pages_[std::move(path)] = std::move(page); }

bool Api::Has(std::string_view path) const { return pages_.find(path) != pages_.end(); }

Result<std::string> Api::Get(std::string_view target) const {
  ASSIGN_OR_RETURN(const ApiRequest request, ApiRequest::Parse(target));
  return Get(request);
}

Result<std::string> Api::Get(const ApiRequest& request) const {
  const auto page = pages_.find(request.path);
  if (page == pages_.end()) return Status{Code::kUnavailable, "there is no page " + Printable(request.path)};
  return page->second(request);
}

}  // namespace gpulens
