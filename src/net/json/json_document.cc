#include "net/json/json_document.h"

// Debian ships Boost.JSON as headers and a shared library; this is its source, compiled here once.
#include <boost/json/src.hpp>

#include "net/json/exact_parser.h"

namespace gpulens {

namespace json = boost::json;

struct JsonDocument::Impl {
  json::value root;

  const json::value* Find(std::string_view pointer) const {
    boost::system::error_code error;
    return root.find_pointer(json::string_view(pointer.data(), pointer.size()), error);
  }
};

JsonDocument::JsonDocument(std::unique_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}
JsonDocument::JsonDocument(JsonDocument&&) noexcept = default;
JsonDocument& JsonDocument::operator=(JsonDocument&&) noexcept = default;
JsonDocument::~JsonDocument() = default;

Result<JsonDocument> JsonDocument::Parse(std::string_view text) {
  if (text.size() > kMostBytes)
    return Status{Code::kExhausted, "JSON of " + std::to_string(text.size()) + " bytes"};
  json::parse_options options;
  options.max_depth = kMostDepth;
  json::basic_parser<ExactValues> parser(options);
  boost::system::error_code error;
  const size_t read = parser.write_some(false, text.data(), text.size(), error);
  if (!error && read < text.size()) error = json::error::extra_data;
  if (error == json::error::too_deep) return Status{Code::kExhausted, "JSON is nested too deep"};
  if (error)
    return Status{Code::kDataLoss, "invalid JSON at byte " + std::to_string(read) + ": " + error.message()};
  auto impl = std::make_unique<Impl>();
  impl->root = parser.handler().Release();
  return JsonDocument(std::move(impl));
}

std::optional<std::string> JsonDocument::Text(std::string_view pointer) const {
  const json::value* value = impl_->Find(pointer);
  if (!value || !value->is_string()) return std::nullopt;
  return std::string(value->get_string().data(), value->get_string().size());
}

std::optional<double> JsonDocument::Number(std::string_view pointer) const {
  const json::value* value = impl_->Find(pointer);
  if (!value || !value->is_number()) return std::nullopt;
  return value->to_number<double>();
}

std::optional<uint64_t> JsonDocument::Whole(std::string_view pointer) const {
  const json::value* value = impl_->Find(pointer);
  if (!value || !value->is_number()) return std::nullopt;
  boost::system::error_code error;
  const uint64_t whole = value->to_number<uint64_t>(error);
  return error ? std::nullopt : std::optional(whole);
}

std::optional<int64_t> JsonDocument::Integer(std::string_view pointer) const {
  const json::value* value = impl_->Find(pointer);
  if (!value || !value->is_number()) return std::nullopt;
  boost::system::error_code error;
  const int64_t whole = value->to_number<int64_t>(error);
  return error ? std::nullopt : std::optional(whole);
}

std::optional<bool> JsonDocument::Truth(std::string_view pointer) const {
  const json::value* value = impl_->Find(pointer);
  return value && value->is_bool() ? std::optional(value->get_bool()) : std::nullopt;
}

bool JsonDocument::IsNull(std::string_view pointer) const {
  const json::value* value = impl_->Find(pointer);
  return value && value->is_null();
}

std::optional<std::vector<std::string>> JsonDocument::Names(std::string_view pointer) const {
  const json::value* value = impl_->Find(pointer);
  if (!value || !value->is_object()) return std::nullopt;
  std::vector<std::string> names;
  for (const auto& member : value->get_object()) names.emplace_back(member.key().data(), member.key().size());
  return names;
}

size_t JsonDocument::Size(std::string_view pointer) const {
  const json::value* value = impl_->Find(pointer);
  return value && value->is_array() ? value->get_array().size() : 0;
}

}  // namespace gpulens
