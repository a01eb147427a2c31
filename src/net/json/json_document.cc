#include "net/json/json_document.h"

// Debian ships Boost.JSON as headers and a shared library; this is its source, compiled here once.
#include <boost/json/src.hpp>
//
#include <boost/json/basic_parser_impl.hpp>
#include <boost/json/value_stack.hpp>
#include <limits>

#include "base/parse.h"

namespace gpulens {

namespace json = boost::json;

namespace {

// Builds a value from what Boost.JSON's parser finds, as its own handler does, but a number with a fraction
// or an exponent is the nearest double: the handler of this Boost rounds twice.
class ExactValues {
 public:
  // NOLINTBEGIN(readability-identifier-naming): the parser knows these names.
  static constexpr size_t max_object_size = std::numeric_limits<size_t>::max(),
                          max_array_size = max_object_size, max_key_size = max_object_size,
                          max_string_size = max_object_size;
  // NOLINTEND(readability-identifier-naming)
  using Text = json::string_view;
  using Error = boost::system::error_code;

  ExactValues() { stack_.reset(); }
  json::value Release() { return stack_.release(); }

  bool on_document_begin(Error&) { return true; }
  bool on_document_end(Error&) { return true; }
  bool on_object_begin(Error&) { return true; }
  bool on_object_end(size_t n, Error&) { return stack_.push_object(n), true; }
  bool on_array_begin(Error&) { return true; }
  bool on_array_end(size_t n, Error&) { return stack_.push_array(n), true; }
  bool on_key_part(Text text, size_t, Error&) { return stack_.push_chars(text), true; }
  bool on_key(Text text, size_t, Error&) { return stack_.push_key(text), true; }
  bool on_string_part(Text text, size_t, Error&) { return stack_.push_chars(text), true; }
  bool on_string(Text text, size_t, Error&) { return stack_.push_string(text), true; }
  bool on_number_part(Text text, Error&) { return digits_.append(text.data(), text.size()), true; }
  bool on_int64(int64_t value, Text, Error&) { return digits_.clear(), stack_.push_int64(value), true; }
  bool on_uint64(uint64_t value, Text, Error&) { return digits_.clear(), stack_.push_uint64(value), true; }
  bool on_double(double nearly, Text text, Error&) {
    digits_.append(text.data(), text.size());
    // Beyond the range of a double: infinite or 0, as Boost has it.
    stack_.push_double(ParseDouble(digits_).value_or(nearly));
    digits_.clear();
    return true;
  }
  bool on_bool(bool value, Error&) { return stack_.push_bool(value), true; }
  bool on_null(Error&) { return stack_.push_null(), true; }
  bool on_comment_part(Text, Error&) { return true; }
  bool on_comment(Text, Error&) { return true; }

 private:
  json::value_stack stack_;
  std::string digits_;  // of a number that came in parts
};

}  // namespace

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
